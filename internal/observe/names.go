package observe

import (
	"strings"

	"github.com/delayedop/purgatory/internal/guard"
)

// Key formats a key.
func Key(key any) string { return cut(guard.Text(key)) }

const maxText = 200 // bytes of a key

// cut returns valid UTF-8 of bounded length.
func cut(s string) string {
	const invalid = "\uFFFD"
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, invalid)
	}
	// A character that is cut in two becomes an invalid one at the end.
	return strings.TrimSuffix(strings.ToValidUTF8(s[:maxText], invalid), invalid) + "…"
}
