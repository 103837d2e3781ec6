//go:build race

package purgatory

const RaceDetector = true
