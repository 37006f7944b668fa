//go:build tools

// Package tools names the command of helm that is built from this module; nothing here is compiled.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
