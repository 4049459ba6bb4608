// kubectl for the tests, where PATH has none: the command of the module k8s.io/kubectl, with the
// authentication plugins that the released binary has. scripts/kubectl builds it.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
