package observe

import (
	"strings"

	"github.com/delayedop/purgatory/internal/guard"
)

const maxText = 200 // bytes of a key

// Key formats a key as valid UTF-8 of bounded length.
func Key(key any) string {
	const invalid = "\uFFFD"
	s := guard.Text(key)
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, invalid)
	}
	// A character that is cut in two becomes an invalid one at the end.
	return strings.TrimSuffix(strings.ToValidUTF8(s[:maxText], invalid), invalid) + "…"
}
