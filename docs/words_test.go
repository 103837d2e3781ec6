package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// explored are the folders whose shared words are scheduling points, so that the explorations see each order of them.
var explored = []string{"operation", "purgatory", "watchers", "timer", "reaper", "internal", "signals", "watermark", "queue", "future"}

// The code of these folders uses the types of internal/sched in place of those of sync and sync/atomic, and sched.Go in
// place of the go statement, or a comment on the line, or on the declaration, says why it is not explored.
func TestSharedWordsAreExplored(t *testing.T) {
	for _, folder := range explored {
		err := filepath.WalkDir(filepath.Join("..", folder), func(file string, entry fs.DirEntry, err error) error {
			switch slashed := filepath.ToSlash(file); {
			case err != nil:
				return err
			case strings.HasSuffix(slashed, "internal/sched"), strings.HasSuffix(slashed, "internal/watchdog"),
				strings.HasSuffix(slashed, "test") && entry.IsDir(): // what tests only use
				return filepath.SkipDir
			case entry.IsDir(), !strings.HasSuffix(slashed, ".go"), strings.HasSuffix(slashed, "_test.go"):
				return nil
			}
			for _, at := range plainWords(t, file, nil) {
				t.Errorf("%s is no scheduling point: use internal/sched, or say on the line why it is not explored", at)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestAPlainWordIsFound(t *testing.T) {
	for text, found := range map[string]int{
		"var a atomic.Int64":                                               1,
		"var a atomic.Int64 // it counts":                                  1,
		"var a atomic.Int64 // not explored: it counts":                    0,
		"// They are not explored.\nvar (\n\ta atomic.Bool\n)":             0,
		"// It is not explored.\ntype t struct{ a, b atomic.Bool }":        0,
		"type t struct {\n\t// not explored\n\ta, b sync.Mutex\n}":         0,
		"type t struct {\n\ta sync.Mutex // not explored\n\tb sync.Map\n}": 1,
		"func f() {\n\tgo f()\n}":                                          1,
		"// f is not explored.\nfunc f() {\n\tgo f()\n}":                   1,
		"func f() {\n\tgo f() // not explored\n}":                          0,
		"var a sched.Int64":                                                0,
	} {
		got := plainWords(t, "words.go", "package p\n\nimport (\n\t\"sync\"\n\t\"sync/atomic\"\n)\n\n"+text+"\n")
		if len(got) != found {
			t.Errorf("%s\nfound %v, want %d", text, got, found)
		}
	}
}

// plainWords returns where a file uses sync or sync/atomic, or has a go statement, without saying that it is not explored.
func plainWords(t *testing.T, file string, text any) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	excused := map[int]bool{} // by line
	excuse := func(from, to token.Pos, comments ...*ast.CommentGroup) {
		for _, c := range comments {
			if c != nil && strings.Contains(strings.ToLower(c.Text()), "not explored") {
				for line := files.Position(from).Line; line <= files.Position(to).Line; line++ {
					excused[line] = true
				}
			}
		}
	}
	for _, c := range f.Comments {
		excuse(c.Pos(), c.Pos(), c)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			excuse(n.Pos(), n.End(), n.Doc)
		case *ast.TypeSpec:
			excuse(n.Pos(), n.End(), n.Doc, n.Comment)
		case *ast.ValueSpec:
			excuse(n.Pos(), n.End(), n.Doc, n.Comment)
		case *ast.Field:
			excuse(n.Pos(), n.End(), n.Doc, n.Comment)
		}
		return true
	})
	note := func(what string, at token.Pos) {
		if p := files.Position(at); !excused[p.Line] {
			found = append(found, p.String()+": "+what)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr: // makes words that are declared elsewhere
			if f, is := n.Fun.(*ast.Ident); is && (f.Name == "make" || f.Name == "new") {
				return false
			}
		case *ast.GoStmt:
			note("go", n.Pos())
		case *ast.SelectorExpr:
			if of, is := n.X.(*ast.Ident); is && (of.Name == "sync" || of.Name == "atomic") {
				note(of.Name+"."+n.Sel.Name, n.Pos())
			}
		}
		return true
	})
	return found
}
