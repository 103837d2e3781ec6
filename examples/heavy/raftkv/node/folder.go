package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	idFile      = "node-id" // whose folder it is
	logFile     = "raft.db" // log, term and vote
	keptOnDisk  = 2         // snapshots
	unfinished  = ".new"    // ending of a file that is being written
	lockTimeout = time.Second
)

// idKey holds the node's id inside logFile too: a log that was emptied, or is another node's, has forgotten what its node has
// promised to others, and the node must not vote with it.
var idKey = []byte("raftkv/node-id")

var errFolder = errors.New("raftkv: data folder")

// folder is a node's data on disk.
type folder struct {
	logs      *raftboltdb.BoltStore
	snapshots raft.SnapshotStore
	isNew     bool
}

// openFolder opens the folder of node id, or makes a new one. It never does one in place of the other: a node that has lost its
// data must not come back under its old id as if it had never voted, so the command line that starts a node again is not the
// one that has made it. A new folder is only a node's when [folder.seal] has been called.
func openFolder(path, id string, create bool, logs hclog.Logger) (f *folder, err error) {
	fail := func(err error) (*folder, error) { return nil, fmt.Errorf("%w %s: %w", errFolder, path, err) }
	owner, err := os.ReadFile(filepath.Join(path, idFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := claimFolder(path, create); err != nil {
			return fail(err)
		}
		f = &folder{isNew: true}
	case err != nil:
		return fail(err)
	case string(owner) != id:
		return fail(fmt.Errorf("it belongs to node %q, not to %q", owner, id))
	case create:
		return fail(fmt.Errorf("node %q has been made in it already: start it without -bootstrap and -join", id))
	default:
		f = &folder{}
		if _, err := os.Stat(filepath.Join(path, logFile)); err != nil {
			return fail(fmt.Errorf("the node's log is missing: let it join anew under another id: %w", err))
		}
	}
	if f.logs, err = openLog(filepath.Join(path, logFile)); err != nil {
		return fail(err)
	}
	if err = f.identify(id); err == nil {
		f.snapshots, err = raft.NewFileSnapshotStoreWithLogger(path, keptOnDisk, logs)
	}
	if err != nil {
		f.logs.Close()
		return fail(err)
	}
	return f, nil
}

// claimFolder makes the folder, or accepts one in which nothing but a half-made node lies.
func claimFolder(path string, create bool) error {
	if !create {
		return errors.New("there is no node in it: -bootstrap or -join would make one, under an id that was never used")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		if name := file.Name(); name != logFile && name != "snapshots" && name != idFile+unfinished {
			return fmt.Errorf("it holds %q, which is no part of a node", name)
		}
	}
	return nil
}

// identify checks that the log is the node's, or writes the id into a new one.
func (f *folder) identify(id string) error {
	owner, err := f.logs.Get(idKey)
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return err
	}
	if !f.isNew {
		if string(owner) != id {
			return fmt.Errorf("%s is not the log of node %q, or has lost its content (it says %q)", logFile, id, owner)
		}
		return nil
	}
	if len(owner) > 0 && string(owner) != id {
		return fmt.Errorf("%s belongs to node %q, not to %q", logFile, owner, id)
	}
	return f.logs.Set(idKey, []byte(id))
}

// seal marks a new folder as the node's. It comes last: whatever ends the process before leaves a folder that can be made again.
func (f *folder) seal(path, id string) error {
	if !f.isNew {
		return nil
	}
	return writeWhole(filepath.Join(path, idFile), []byte(id))
}

// writeWhole writes a file that is there with all of its content, or not at all, whatever ends the process.
func writeWhole(path string, content []byte) error {
	file, err := os.Create(path + unfinished)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+unfinished, path)
}

// openLog opens the log after every page of it has been read once: the storage panics over a damaged page, and would do so in
// the middle of the engine's work.
func openLog(path string) (*raftboltdb.BoltStore, error) {
	options := &bbolt.Options{Timeout: lockTimeout}
	if _, err := os.Stat(path); err == nil {
		if err := readAll(path, options); err != nil {
			return nil, fmt.Errorf("%s: %w", logFile, err)
		}
	}
	s, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: options})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", logFile, explainLock(err))
	}
	return s, nil
}

func explainLock(err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return errors.New("another process has it open")
	}
	return err
}

func readAll(path string, options *bbolt.Options) (err error) {
	// A file that was cut short faults where it is mapped: as a panic that can be recovered from.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, options)
	if err != nil {
		return explainLock(err)
	}
	read := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, v []byte) error {
				if len(v) > 0 {
					_ = v[len(v)-1]
				}
				return nil
			})
		})
	})
	return errors.Join(read, db.Close())
}
