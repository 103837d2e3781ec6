// Package docs has the pages, and a test that what they name exists.
package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a page names exists, and so does what a Go file's comments name:
//
//   - between backticks: a file or folder, a target of make, or a Go name, that our code declares or uses. A
//     name behind a file and in parentheses, as in `a.go` (`f`, `T.m`), is declared in that file.
//   - in a command: a folder (./examples/jobs), and what -run and -bench select
//   - a link's file, and its heading
//   - a doc link, and a page that a comment sends its reader to
//
// Each decision names a line of code.
func TestEveryNameExists(t *testing.T) {
	r := index(t, "..")
	if !r.paths["examples/heavy"] {
		t.Skip("this is not the whole repository")
	}
	t.Run("what is gone is found", func(t *testing.T) { findsWhatIsGone(t, r) })
	for _, page := range r.pages {
		text, err := os.ReadFile(filepath.Join(r.root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range r.page(page, string(text)) {
			t.Error(what)
		}
	}
	for _, s := range r.sources {
		for _, what := range r.comments(s) {
			t.Error(what)
		}
	}
	decisions, err := os.ReadFile("internals/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(decisions), "\n### ")[1:] {
		if title, text, _ := strings.Cut(section, "\n"); !located.MatchString(text) {
			t.Errorf("docs/internals/decisions.md: %q names no line of code", title)
		}
	}
}

// findsWhatIsGone shows that the test sees each kind of name that is gone, and takes nothing else for one.
func findsWhatIsGone(t *testing.T, r *repository) {
	t.Helper()
	for _, line := range []string{
		"`TryCompleteElseWatch`, `p.Extend(op, d)`, `walk.visit`",
		"`errors.AsType`, `timer.NewManualTimer`, `debug.New(p)`",
		"`purgatory/walk.go`, `walk.go`, `examples/heavy/`, `plugin/*`",
		"[`purgatory/ending.go`](../../purgatory/ending.go) (`settle`, `endOne`)",
		"`make check test`, `go test -run '^TestEveryName' ./docs`",
		"[x](#the-clock), [x](design.md#the-clock), [x](proof.md)",
		"`golang.org/x/sync`, `GOGC=400`, `INVALID_REQUEST`, `v0.1.0`, `p50 of n`", // none of ours
	} {
		if missing := r.page("docs/internals/design.md", line+"\n## The clock"); missing != nil {
			t.Errorf("%q are said to be gone", missing)
		}
	}
	for _, line := range []string{
		"`TryCompleteElseWait`", "`p.ExtendBy(op, d)`", "`walk.stop`", "`errors.AsTyped`", "`timer.NewManual`", "`debug.Make(p)`",
		"`purgatory/wolk.go`", "`wolk.go`", "`examples/havy/`", "`plugins/*`", "`purgatory/ending.go` (`settle`, `check`)",
		"`make check tests`", "`go test -run '^TestNoName' ./docs`", "`go test ./doc`", "[x](#clock)", "[x](design.md#clock)", "[x](prof.md)",
	} {
		if missing := r.page("docs/internals/design.md", line+"\n## The clock"); len(missing) != 1 {
			t.Errorf("%s: %q are said to be gone", line, missing)
		}
	}
	s := source{path: "docs/a.go", fset: token.NewFileSet()}
	s.file, _ = parser.ParseFile(s.fset, s.path, `
// [source.path], [repository] and [timer.Timer], see docs/internals/design.md#the-clock.
// [source.paths], [repositories] and [timer.Timers], see docs/designs.md and docs/internals/design.md#the-clocks.
package docs`, parser.ParseComments)
	if missing := r.comments(s); len(missing) != 5 {
		t.Errorf("%q are said to be gone", missing)
	}
}

// foreign are names between backticks that belong to others.
var foreign = set{
	"x/sync": true, "replace": true, "retract": true, "getrusage": true, // Go and its go.mod, Linux
	"WriteTimeout": true, "InvalidArgument": true, "ResourceExhausted": true, "Unavailable": true, // net/http, connect
	"min.insync.replicas": true, "tryComplete": true, // Kafka
	"AppliedIndex": true, "Compacted": true, "AckWait": true, // raft, etcd, NATS
	"periodSeconds": true, "failureThreshold": true, // Kubernetes
	"cycle":         true,                         // what spin prints
	"results/quick": true, "results/custom": true, // written by make bench-quick
}

var (
	span    = regexp.MustCompile("`([^`]+)`")
	located = regexp.MustCompile("`([\\w./-]+\\.go)`(?:\\]\\([^)]*\\))? \\((`[^()]+`)\\)")
	goName  = regexp.MustCompile(`^(?:([A-Za-z_]\w*)\.)?([A-Za-z_][\w.]*?)(?:\[\w+\])?(?:\(.*\))?$`)
	pathish = regexp.MustCompile(`^[\w*.-]+(?:/[\w*.-]+)+/?$|^[\w-]+\.(?:go|md|pml|sh|js|html|json|yaml)$`)
	notGo   = regexp.MustCompile(`^[A-Z]+$|^[A-Za-z]+_\w+$|(?:^|/)v\d[\d.]+$`) // a Kafka error, a name of C, a version
	link    = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	docLink = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Za-z_][\w.]*)\](?:[\s.,;:)]|$)`)
	makes   = regexp.MustCompile(`^make((?: [a-z][a-z0-9-]*\b)+)`)
	folder  = regexp.MustCompile(`(?:^| )(\./[\w./-]+)`)
	choice  = regexp.MustCompile(` -(?:run|bench|fuzz) '?\^?(\w+)`)
	aPage   = regexp.MustCompile(`([\w./-]+\.md)\b(?:#([\w-]+))?`)
)

// page returns what a page names and does not exist.
func (r *repository) page(name, text string) (missing []string) {
	fenced := name == "Makefile"
	for n, line := range strings.Split(text, "\n") {
		miss := func(what string, ok bool) {
			if !ok {
				missing = append(missing, fmt.Sprintf("%s:%d: %s", name, n+1, what))
			}
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			miss(line, r.command(line))
			continue
		}
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			miss(m[1], r.exists(path.Dir(name), m[1]))
		}
		for _, m := range located.FindAllStringSubmatch(line, -1) {
			for _, s := range span.FindAllStringSubmatch(m[2], -1) {
				miss(s[1]+" in "+m[1], r.declaredIn(m[1], s[1]))
			}
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			miss(m[0], r.linked(name, text, m[1], m[2]))
		}
	}
	return missing
}

// exists reports whether s exists, or is nothing that has to. s stands between backticks on a page of a folder.
func (r *repository) exists(dir, s string) bool {
	name := goName.FindStringSubmatch(s)
	switch {
	case r.words[s] || foreign[s] || notGo.MatchString(s) || r.isPath(dir, s):
		return true
	case pathish.MatchString(s): // or a package of others
		return slices.ContainsFunc(r.from[path.Base(s)], func(p string) bool { return strings.HasSuffix(p, s) })
	case name == nil:
		return r.command(s)
	case name[1] == "":
		return r.words[name[2]] || r.from[s] != nil || types.Universe.Lookup(s) != nil || token.IsKeyword(s)
	case r.from[name[1]] != nil:
		return r.inPackage(name[1], name[2])
	case r.types[name[1]]:
		return r.words[name[1]+"."+name[2]]
	default: // a variable and a member, perhaps of a member
		return r.words[name[2][strings.LastIndexByte(name[2], '.')+1:]]
	}
}

// isPath reports whether s is a file or folder: from the root, from a page's folder, or by its base name.
func (r *repository) isPath(dir, s string) bool {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "..."), "/")
	s = strings.TrimPrefix(s, "github.com/delayedop/purgatory/")
	if r.paths[path.Clean(s)] || r.paths[path.Join(dir, s)] {
		return true
	}
	if !strings.Contains(s, "*") {
		return false
	}
	glob, err := filepath.Glob(filepath.Join(r.root, s))
	return err == nil && len(glob) > 0
}

// command reports whether what a command line names exists: targets of make, folders, and what -run, -bench and -fuzz
// select.
func (r *repository) command(line string) bool {
	line, _, _ = strings.Cut(line, " #")
	if targets := makes.FindStringSubmatch(line); targets != nil {
		for _, target := range strings.Fields(targets[1]) {
			if !r.targets[target] {
				return false
			}
		}
	}
	for _, m := range folder.FindAllStringSubmatch(line, -1) {
		if !r.isPath("", m[1]) {
			return false
		}
	}
	for _, m := range choice.FindAllStringSubmatch(line, -1) {
		chosen := regexp.MustCompile(m[1])
		if !slices.ContainsFunc(r.tests, chosen.MatchString) {
			return false
		}
	}
	return true
}

// declaredIn reports whether a file, which is named by its path or the end of it, declares a name.
func (r *repository) declaredIn(file, name string) bool {
	for p, in := range r.in {
		if (p == file || strings.HasSuffix(p, "/"+file)) && in[name] {
			return true
		}
	}
	return false
}

// linked reports whether the file and the heading of a link exist.
func (r *repository) linked(page, text, file, anchor string) bool {
	if file != "" {
		to := path.Join(path.Dir(page), file)
		if !r.paths[to] {
			return false
		}
		if anchor == "" {
			return true
		}
		other, err := os.ReadFile(filepath.Join(r.root, to))
		if err != nil {
			return false
		}
		text = string(other)
	}
	return slices.ContainsFunc(heading.FindAllStringSubmatch(text, -1), func(m []string) bool {
		return anchorOf(m[1]) == anchor
	})
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	kept := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

// comments returns what the comments of a Go file name and does not exist.
func (r *repository) comments(s source) (missing []string) {
	for _, group := range s.file.Comments {
		for line := range strings.SplitSeq(group.Text(), "\n") {
			for _, m := range aPage.FindAllStringSubmatch(line, -1) {
				if !r.isPath(path.Dir(s.path), m[1]) || m[2] != "" && !r.linked("README.md", "", m[1], m[2]) {
					missing = append(missing, fmt.Sprintf("%s: %s", s.fset.Position(group.Pos()), m[0]))
				}
			}
			if strings.HasPrefix(line, "\t") {
				continue // code
			}
			for _, m := range docLink.FindAllStringSubmatch(line, -1) {
				if !r.docLinked(s, m[1]) {
					missing = append(missing, fmt.Sprintf("%s: [%s]", s.fset.Position(group.Pos()), m[1]))
				}
			}
		}
	}
	return missing
}

// docLinked reports whether a doc link of a file leads to something.
func (r *repository) docLinked(s source, name string) bool {
	if r.in[path.Dir(s.path)][name] || types.Universe.Lookup(name) != nil {
		return true
	}
	pkg, rest, _ := strings.Cut(name, ".")
	return r.from[pkg] != nil && (rest == "" || r.inPackage(pkg, rest))
}

// inPackage reports whether a package with this name declares what is named, or is none of ours nor of Go.
func (r *repository) inPackage(pkg, name string) bool {
	return slices.ContainsFunc(r.from[pkg], func(p string) bool {
		in := r.declares(p)
		return in == nil || in[name]
	})
}
