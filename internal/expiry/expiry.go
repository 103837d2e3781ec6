// Package expiry lets package timer end operations without importing the package that
// defines them. That package imports timer, so the call goes through a variable here.
package expiry

// Expired ends an operation whose timeout has passed. Package internal/machine sets it in
// an init function, so reads need no lock. Package timer calls it, with no lock held, for an
// entry that is bound to an operation. owner is that operation.
var Expired func(owner any)
