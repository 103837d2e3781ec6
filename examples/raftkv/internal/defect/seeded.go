//go:build raftkv_defects

// Package defect lets the checker prove that it can fail; see the file for normal builds.
package defect

import "os"

// Available says that defects can be chosen.
const Available = true

var chosen = os.Getenv("RAFTKV_DEFECT")

// The defects; see the constants of the same names in a normal build.
var (
	SkipAppliedWait = chosen == "skip-applied-wait"
	SkipVerify      = chosen == "skip-verify"
	ClaimNotWritten = chosen == "claim-not-written"
)
