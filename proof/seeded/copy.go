package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// copyModule copies the library. It leaves out what the library's tests do not need:
// hidden folders, modules of their own, programs and documents.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && leftOut(path, rel) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
}

func leftOut(path, rel string) bool {
	if strings.HasPrefix(rel, ".") {
		return true
	}
	switch filepath.ToSlash(rel) {
	case "docs", "examples", "model", "proof":
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}
