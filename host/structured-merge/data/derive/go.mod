module derive

go 1.26

require k8s.io/api v0.36.3
