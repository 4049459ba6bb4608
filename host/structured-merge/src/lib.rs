//! Schemas, field sets, drift, apply and strategic merge for Deployments and Foos.
