package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
)

// maxElements bounds the array elements and tags of one request.
const maxElements = 100_000

// shapes says how requests look on the wire, so that a frame can be walked before
// it is decoded. The decoder believes every count that it reads: it allocates an
// array of structs as long as a byte per element is left, and loops over as many
// tags as an integer can say. The walk allocates nothing and ends at the first
// count that the frame does not hold.
//
// Fields are named by type, arrays are in brackets, @ gives the versions of a
// field where it is not in all: 3+, -12, 2-4.
//
//nolint:dupword // a type is named as often as it occurs
var shapes = map[int16][]field{
	0:  shape("string@3+ int16 int32 [ string@-12 uuid@13+ [ int32 bytes ] ]"),
	1:  shape("int32@-14 int32 int32 int32@3+ int8@4+ int32@7+ int32@7+ [ string@-12 uuid@13+ [ int32 int32@9+ int64 int32@12+ int64@5+ int32 ] ] [@7+ string@-12 uuid@13+ [ ~int32 ] ] string@11+"),
	2:  shape("int32 int8@2+ [ string [ int32 int32@4+ int64 int32@-0 ] ]"),
	3:  shape("[ uuid@10+ string ] int8@4+ int8@8-10 int8@8+"),
	8:  shape("string int32@1+ string@1+ string@7+ int64@2-4 [ string@-9 uuid@10+ [ int32 int64 int64@1-1 int32@6+ string ] ]"),
	9:  shape("string@-7 [@-7 string [ ~int32 ] ] [@8+ string string@9+ int32@9+ [ string@-9 uuid@10+ [ ~int32 ] ] ] int8@7+"),
	10: shape("string@-3 int8@1+ [@4+ ~string ]"),
	11: shape("string int32 int32@1+ string string@5+ string [ string bytes ] string@8+"),
	12: shape("string int32 string string@3+"),
	13: shape("string string@-2 [@3+ string string string@5+ ]"),
	14: shape("string int32 string string@3+ string@5+ string@5+ [ string bytes ]"),
	18: shape("string@3+ string@3+ string@5+ int32@5+"),
	19: shape("[ string int32 int16 [ int32 [ ~int32 ] ] [ string string ] ] int32 int8@1+"),
	22: shape("string int32 int64@3+ int16@3+"),
	68: shape("string string int32 string string int32 [ ~string ] string@1+ string [ uuid [ ~int32 ] ]"),
}

// field is one field, or an array whose elements have the fields of.
type field struct {
	size     int // of a fixed one; else 0
	prefix   int // bytes of its length where the version is not flexible: 2, or 4
	min, max int16
	of       []field
	bare     bool // an array of plain values: its elements carry no tags
}

var sizes = map[string]int{"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uuid": 16}

// shape parses a line of the table above.
func shape(line string) []field {
	words := strings.Fields(line)
	return fields(&words)
}

// fields parses up to the end of the array that they are in.
func fields(words *[]string) (parsed []field) {
	for len(*words) > 0 {
		kind, versions, _ := strings.Cut((*words)[0], "@")
		*words = (*words)[1:]
		f := field{max: math.MaxInt16}
		if from, to, ranged := strings.Cut(versions, "-"); ranged {
			f.min, f.max = version(from), version(to)
		} else {
			f.min = version(strings.TrimSuffix(versions, "+"))
		}
		bare := strings.TrimPrefix(kind, "~")
		f.bare = kind != bare
		switch bare {
		case "[":
			f.prefix, f.of = 4, fields(words)
			f.bare = f.of[0].bare
		case "]":
			return parsed
		case "string":
			f.prefix = 2
		case "bytes":
			f.prefix = 4
		default:
			f.size = sizes[bare]
		}
		parsed = append(parsed, f)
	}
	return parsed
}

func version(s string) int16 {
	n, _ := strconv.Atoi(s) // an open end is zero
	return int16(n)
}

// walk follows one message through its frame.
type walk struct {
	kbin.Reader
	version  int16
	flexible bool
	elements int
}

// checkShape walks a request's body. It refuses what is truncated and what holds
// more elements than any client has reason to send.
func checkShape(key, version int16, flexible bool, body []byte) error {
	w := walk{Reader: kbin.Reader{Src: body}, version: version, flexible: flexible}
	w.fields(shapes[key])
	w.tags()
	if !w.Ok() || w.elements > maxElements {
		return fmt.Errorf("%w: API key %d version %d", errFrame, key, version)
	}
	return nil
}

func (w *walk) fields(fields []field) {
	for _, f := range fields {
		switch {
		case w.version < f.min || w.version > f.max:
		case f.size > 0:
			w.Span(f.size)
		case f.of == nil:
			w.Span(max(0, w.length(f.prefix)))
		default:
			for n := w.length(f.prefix); n > 0 && w.more(); n-- {
				w.fields(f.of)
				if !f.bare {
					w.tags()
				}
			}
		}
	}
}

// length reads what stands before strings, bytes and arrays; -1 is null.
func (w *walk) length(prefix int) int {
	switch {
	case w.flexible:
		return int(w.Uvarint()) - 1
	case prefix == 2:
		return int(w.Int16())
	default:
		return int(w.Int32())
	}
}

func (w *walk) tags() {
	if !w.flexible {
		return
	}
	for n := w.Uvarint(); n > 0 && w.more(); n-- {
		w.Uvarint()
		w.Span(int(w.Uvarint()))
	}
}

// more counts an element and says whether to go on.
func (w *walk) more() bool {
	w.elements++
	return w.Ok() && w.elements <= maxElements
}
