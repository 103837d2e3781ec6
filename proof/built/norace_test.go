//go:build !race

package built

const race = false
