//go:build race

package built

const race = true
