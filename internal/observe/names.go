package observe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/delayedop/purgatory/internal/guard"
)

// Kind names op in errors and records: by what it waits in, "Await" or "Wait", or by its type.
func Kind(op any) (kind string) {
	if w, ok := op.(interface{ WaitsIn() string }); ok {
		kind = w.WaitsIn()
	}
	return cmp.Or(kind, fmt.Sprintf("%T", op))
}

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
