package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// call is a statement of an example program that checks or signals a key.
type call struct {
	file     string // from the root of the repository, with slashes
	line     int
	text     string
	from, to int // offsets of the statement in the file
	without  string
}

func (c call) String() string { return fmt.Sprintf("%s:%d: %s", c.file, c.line, c.text) }

// isCheck matches the names of the methods that check or signal keys.
var isCheck = regexp.MustCompile(`^(CheckAndComplete|Signal)(UpTo)?$`)

// calls returns the calls in the Go files under folder, tests left out. A call is a statement of
// its own, whose result nobody reads. (So a signal to a process, which can fail, is none; and a
// signal without a key is a sync.Cond's.)
func calls(root, folder string) (all []call, err error) {
	err = filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		some, err := callsOf(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		for _, c := range some {
			c.file = filepath.ToSlash(rel)
			all = append(all, c)
		}
		return err
	})
	return all, err
}

func callsOf(path string) (all []call, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		statement, ok := n.(*ast.ExprStmt)
		if !ok {
			return true
		}
		made, ok := statement.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := made.Fun.(*ast.SelectorExpr)
		if !ok || !isCheck.MatchString(method.Sel.Name) || method.Sel.Name == "Signal" && len(made.Args) == 0 {
			return true
		}
		at := set.Position(statement.Pos())
		all = append(all, call{
			line: at.Line, text: strings.Join(strings.Fields(source(set, made)), " "), from: at.Offset, to: set.Position(statement.End()).Offset,
			// What it names is still used, and what it calls for its arguments is still called.
			without: "_ = []any{" + source(set, slices.Concat([]ast.Expr{method.X}, made.Args)...) + "}",
		})
		return true
	})
	return all, nil
}

// source returns expressions as Go code.
func source(set *token.FileSet, expressions ...ast.Expr) string {
	var all []string
	for _, e := range expressions {
		var text bytes.Buffer
		if err := printer.Fprint(&text, set, e); err != nil {
			panic(err) // the parser has made e, and a Buffer takes everything
		}
		all = append(all, text.String())
	}
	return strings.Join(all, ", ")
}

// takenOut returns source without the call.
func (c call) takenOut(source []byte) []byte {
	return slices.Concat(source[:c.from], []byte(c.without), source[c.to:])
}
