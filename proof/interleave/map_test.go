package interleave

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// proof/model/README.md maps the steps of the models to functions. Both move; this test
// fails when a function is gone from the files that its row names.
func TestEveryModelledStepExists(t *testing.T) {
	page, err := os.ReadFile("../model/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Model and code")
	table, _, _ = strings.Cut(table, "\n## ")
	name := regexp.MustCompile("`([A-Za-z.]+)`")
	steps := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[3], ".go") {
			continue
		}
		in := make(map[string]bool)
		for file := range strings.SplitSeq(cells[3], ",") {
			functions(t, "../../"+strings.TrimSpace(file), in)
		}
		for _, f := range name.FindAllStringSubmatch(cells[2], -1) {
			steps++
			if !in[f[1]] {
				t.Errorf("step %q: no function %s in %s", strings.TrimSpace(cells[1]), f[1], strings.TrimSpace(cells[3]))
			}
		}
	}
	if steps < 50 {
		t.Errorf("the table names only %d functions", steps)
	}
}

// functions adds the names of a file's functions to the map, as Type.Name for methods.
func functions(t *testing.T, file string, to map[string]bool) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			name = receiver(fn.Recv.List[0].Type) + "." + name
		}
		to[name] = true
	}
}

// receiver returns the name of a method's receiver type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
