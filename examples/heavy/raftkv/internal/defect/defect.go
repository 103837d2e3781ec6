//go:build !raftkv_defects

// Package defect lets the checker prove that it can fail: each constant leaves out one step on which linearizability depends.
// In a normal build all of them are false constants, and the compiler removes what they guard. With the build tag
// raftkv_defects they are variables, set from the environment variable.
package defect

// Variable is the environment variable that chooses a defect, where that is Available.
const (
	Variable  = "RAFTKV_DEFECT"
	Available = false
)

const (
	// SkipAppliedWait makes a read answer without waiting for the index that the leader has confirmed.
	SkipAppliedWait = false
	// SkipVerify makes a leader answer for its commit index without asking whether it still is the leader.
	SkipVerify = false
	// ClaimNotWritten makes a node report a cancelled proposal as not written, although it may be applied later.
	ClaimNotWritten = false
)
