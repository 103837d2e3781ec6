// Package inside has what packages of this module ask a purgatory beside its exported methods. Package purgatory sets
// the functions when the program begins. Their argument p is a *purgatory.DelayedOperationPurgatory[K] of any K.
package inside

// Registering reports whether an operation of p is pending that its goroutine has not registered to the end.
var Registering func(p any) bool
