//go:build tools

// Package tools names the command of kind that is built from this module; nothing here is compiled.
package tools

import (
	_ "sigs.k8s.io/kind"
)
