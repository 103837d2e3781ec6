package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy is a module proxy made of files, as "go help goproxy" describes it, with a module
// cache of its own beside it: the versions in it are not published, and must not stay in
// the user's cache.
type proxy struct {
	dir string
	env []string // what a go command needs to use it
}

func newProxy(ctx context.Context, scratch string) (*proxy, error) {
	proxies, err := output(ctx, scratch, nil, "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, err := output(ctx, scratch, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "proxy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// What the user's cache has downloaded need not be downloaded again: it is laid out as
	// a proxy.
	proxies = strings.Join([]string{fileURL(dir), fileURL(filepath.Join(cache, "cache", "download")), proxies}, ",")
	return &proxy{dir: dir, env: append(os.Environ(),
		"GOPROXY="+proxies,
		"GOMODCACHE="+filepath.Join(scratch, "cache"),
		"GOFLAGS=-mod=mod -modcacherw",
		"GOWORK=off",
		"GOPRIVATE=", "GONOPROXY=none",
	)}, nil
}

func fileURL(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") { // a drive of Windows
		dir = "/" + dir
	}
	return "file://" + dir
}

// pack adds a module of the revision at version, and returns the size of its archive.
func (p *proxy) pack(r *revision, m *mod, version string) (size int64, err error) {
	v := module.Version{Path: m.path(), Version: version}
	escaped, err := module.EscapePath(v.Path)
	if err != nil {
		return 0, err
	}
	base := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return 0, err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, r.time})
	if err != nil {
		return 0, err
	}
	goMod, err := m.file.Format()
	if err != nil {
		return 0, err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": goMod} {
		if err := os.WriteFile(filepath.Join(base, name), data, 0o644); err != nil {
			return 0, err
		}
	}
	archive, err := os.Create(filepath.Join(base, version+".zip"))
	if err != nil {
		return 0, err
	}
	defer archive.Close()
	if err := zip.CreateFromVCS(archive, v, r.repo, r.commit, m.dir); err != nil {
		return 0, fmt.Errorf("packing %s: %w", v, err)
	}
	stat, err := archive.Stat()
	if err != nil {
		return 0, err
	}
	return stat.Size(), archive.Close()
}
