// Package recipes has the code of the recipes in docs/operations.md and docs/many-processes.md, so that it compiles and
// is tested.
package recipes
