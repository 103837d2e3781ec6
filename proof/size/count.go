package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// size is what files come to.
type size struct{ lines, tokens, words, names int }

func (s *size) plus(other size) {
	s.lines += other.lines
	s.tokens += other.tokens
	s.words += other.words
	s.names += other.names
}

// add adds a file.
func (s *size) add(name string, text []byte) error {
	files := token.NewFileSet()
	file := files.AddFile(name, files.Base(), len(text))
	var errs scanner.ErrorList
	var scan scanner.Scanner
	scan.Init(file, text, func(at token.Position, message string) { errs.Add(at, message) }, scanner.ScanComments)
	for last := 0; ; {
		pos, tok, literal := scan.Scan()
		switch tok {
		case token.EOF:
			n, err := names(name, text)
			s.names += n
			if errs.Len() > 0 {
				err = errs.Err()
			}
			return err
		case token.COMMENT:
			s.words += words(literal)
			continue
		case token.SEMICOLON:
			if literal == "\n" { // it stands where the line ends, or a comment begins
				s.tokens++
				continue
			}
		}
		s.tokens++
		first := file.Line(pos)
		end := first + strings.Count(literal, "\n")
		s.lines += max(0, end-max(first, last+1)+1)
		last = max(last, end)
	}
}

// words returns how many words a comment has.
func words(comment string) int {
	comment = strings.TrimPrefix(comment, "//")
	if rest, ok := strings.CutPrefix(comment, "/*"); ok {
		comment = strings.TrimSuffix(rest, "*/")
	}
	return len(strings.Fields(comment))
}

// names returns how many names a file exports.
func names(name string, text []byte) (n int, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	count := func(names ...*ast.Ident) {
		for _, id := range names {
			if id.IsExported() {
				n++
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiver(d.Recv.List[0].Type).IsExported() {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					count(spec.Name)
					if i, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
						for _, method := range i.Methods.List {
							count(method.Names...)
						}
					}
				case *ast.ValueSpec:
					count(spec.Names...)
				}
			}
		}
	}
	return n, nil
}

// receiver returns the name of a method's type.
func receiver(x ast.Expr) *ast.Ident {
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t
		default:
			panic(fmt.Sprintf("%T is no receiver", x))
		}
	}
}

// testLines returns the lines of all tests in some folders and below, and of the contract's in root.
func testLines(root string, folders map[string]bool) (lines int, err error) {
	counted := map[string]bool{}
	count := func(file string) error {
		text, err := os.ReadFile(file)
		if !counted[file] {
			lines += bytes.Count(text, []byte("\n"))
		}
		counted[file] = true
		return err
	}
	for folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			return count(path)
		})
		if err != nil {
			return 0, err
		}
	}
	return lines, count(filepath.Join(root, "purgatory_test.go"))
}
