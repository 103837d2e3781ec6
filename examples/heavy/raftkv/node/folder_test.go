package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals/signalstest"
)

// TestFolders opens data folders that it must not open. What is in them stays as it is.
func TestFolders(t *testing.T) {
	all := members(t, 1)
	first := config(t, all[0], all)
	good := first
	good.Bootstrap = nil // as it is started again
	n, err := Open(first)
	require.NoError(t, err)
	awaitLeader(t, n)
	for i := range 100 { // some pages
		_, err = n.Propose(context.Background(), "k", make([]byte, 1000+i), patient)
		require.NoError(t, err)
	}
	_, err = Open(good)
	require.ErrorContains(t, err, "another process has it open")
	require.NoError(t, n.Close())
	content, err := os.ReadFile(filepath.Join(good.Folder, logFile))
	require.NoError(t, err)

	refused := func(name string, c Config, why string) {
		t.Helper()
		_, err := Open(c)
		require.ErrorIs(t, err, errFolder, name)
		require.ErrorContains(t, err, why, name)
	}
	missing := good
	missing.Folder = t.TempDir() + "/none"
	refused("missing", missing, "there is no node in it")
	require.NoDirExists(t, missing.Folder)

	refused("made twice", first, `node "n1" has been made in it already`)
	joins := good
	joins.Join = true
	refused("made twice, to join", joins, `node "n1" has been made in it already`)

	other := good
	other.ID = "n2"
	refused("of another node", other, `belongs to node "n1", not to "n2"`)

	stranger := first
	stranger.Folder = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(stranger.Folder, "thesis.tex"), nil, 0o600))
	refused("of something else", stranger, "thesis.tex")

	file := first
	file.Folder = filepath.Join(stranger.Folder, "thesis.tex")
	refused("a file", file, "not a directory")

	damaged := func(change func(path string)) Config {
		c := good
		c.Folder = t.TempDir()
		require.NoError(t, os.CopyFS(c.Folder, os.DirFS(good.Folder)))
		change(filepath.Join(c.Folder, logFile))
		return c
	}
	refused("no log", damaged(func(p string) { require.NoError(t, os.Remove(p)) }), "log is missing")
	refused("emptied", damaged(func(p string) { require.NoError(t, os.Truncate(p, 0)) }), "has lost its content")
	refused("cut short", damaged(func(p string) { require.NoError(t, os.Truncate(p, int64(len(content)/3))) }), logFile)
	refused("overwritten", damaged(func(p string) {
		b := append([]byte(nil), content...)
		for i := 2 * os.Getpagesize(); i < len(b); i++ {
			b[i] = byte(i * 7)
		}
		require.NoError(t, os.WriteFile(p, b, 0o600))
	}), "damaged")

	n = open(t, good) // and the good one is as it was
	awaitLeader(t, n)
	e, found := n.ReadStale("k")
	require.True(t, found)
	require.Len(t, e.Value, 1099)
}

// TestFolderHalfMade ends a process after it has written its log and before it has sealed the folder: the same command line
// makes it again.
func TestFolderHalfMade(t *testing.T) {
	all := members(t, 1)
	c := config(t, all[0], all)
	n := open(t, c)
	awaitLeader(t, n)
	require.NoError(t, n.Close())
	require.NoError(t, os.Remove(filepath.Join(c.Folder, idFile)))
	awaitLeader(t, open(t, c))
}

// TestFolderHalfSealed ends a process while it writes whose folder it is.
func TestFolderHalfSealed(t *testing.T) {
	all := members(t, 1)
	c := config(t, all[0], all)
	n := open(t, c)
	awaitLeader(t, n)
	require.NoError(t, n.Close())
	mark := filepath.Join(c.Folder, idFile)
	for _, written := range []string{"", "n", "n1"} {
		require.NoError(t, os.Remove(mark))
		require.NoError(t, os.WriteFile(mark+unfinished, []byte(written), 0o600))
		n = open(t, c)
		awaitLeader(t, n)
		require.NoError(t, n.Close())
		require.NoFileExists(t, mark+unfinished)
	}
}

func TestBadConfigurations(t *testing.T) {
	all := members(t, 3)
	for name, change := range map[string]func(*Config){
		"no id":             func(c *Config) { c.ID = "" },
		"no folder":         func(c *Config) { c.Folder = "" },
		"no port":           func(c *Config) { c.Address = "127.0.0.1" },
		"any port":          func(c *Config) { c.Address = "127.0.0.1:0" },
		"not a member":      func(c *Config) { c.ID = "stranger" },
		"another address":   func(c *Config) { c.Address = signalstest.FreeAddress(t) },
		"member twice":      func(c *Config) { c.Bootstrap = append(c.Bootstrap, c.Bootstrap[0]) },
		"bootstrap or join": func(c *Config) { c.Join = true },
		"bad route":         func(c *Config) { c.Routes = map[string]string{"here": "there"} },
		"negative":          func(c *Config) { c.MaxValue = -1 },
	} {
		c := config(t, all[0], append([]Member(nil), all...))
		change(&c)
		_, err := Open(c)
		require.ErrorIs(t, err, errConfig, name)
		require.NoDirExists(t, c.Folder, name)
	}
	taken := open(t, config(t, all[1], all))
	c := config(t, all[2], []Member{{all[2].ID, taken.cfg.Address}})
	c.Address = taken.cfg.Address
	_, err := Open(c)
	require.ErrorContains(t, err, "address already in use")
}
