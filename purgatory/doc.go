// Package purgatory holds requests that cannot be answered yet.
package purgatory
