//go:build raftkv_defects

// Package defect lets the checker prove that it can fail; see the file for normal builds.
package defect

import "os"

// Variable is the environment variable that chooses a defect, where that is Available.
const (
	Variable  = "RAFTKV_DEFECT"
	Available = true
)

var chosen = os.Getenv(Variable)

// The defects; see the constants of the same names in a normal build.
var (
	SkipAppliedWait = chosen == "skip-applied-wait"
	SkipVerify      = chosen == "skip-verify"
	ClaimNotWritten = chosen == "claim-not-written"
)
