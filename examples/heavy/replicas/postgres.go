package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
)

// errNoPostgres: there is no PostgreSQL server to start.
var errNoPostgres = errors.New("no PostgreSQL server is installed here (Debian: apt-get install postgresql)")

// postgresOptions is what follows the address in the URL of the server that startPostgres
// starts.
const postgresOptions = "/postgres?user=replicas&sslmode=disable"

// postgresServer is a PostgreSQL server on a loopback port.
type postgresServer struct {
	process
	addr string
}

// startPostgres starts a server whose files are in dir, with a database of its own. The
// server refuses to run as root: if this process does, the server runs as the user
// postgres or nobody, who then owns dir. Error: errNoPostgres.
func startPostgres(ctx context.Context, dir string) (*postgresServer, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, errNoPostgres
	}
	path := found[len(found)-1]
	as, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	addr, err := children.FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(filepath.Dir(path), "initdb"),
		"-D", data, "-A", "trust", "-U", "replicas", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	arguments := []string{"keep"}
	if as != nil {
		arguments = append(arguments, "-uid", fmt.Sprint(as.Uid), "-gid", fmt.Sprint(as.Gid))
	}
	p, err := newProcess(nil, append(arguments, path, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=50", "-c", "log_min_messages=panic")...)
	if err != nil {
		return nil, err
	}
	p.end = syscall.SIGINT // SIGTERM would wait until every client has left
	s := &postgresServer{addr: addr, process: *p}
	return s, s.start()
}

// runKeep runs a program that does not watch whether its parent ends: this process does so
// for it. Signals reach both, because they are of one group.
func runKeep(_ context.Context, arguments []string) error {
	flags := flag.NewFlagSet("keep", flag.ContinueOnError)
	uid := flags.Uint("uid", 0, "user who runs the program; 0: the user of this process")
	gid := flags.Uint("gid", 0, "the user's group")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	program := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	if *uid != 0 {
		program.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(*uid), Gid: uint32(*gid)}}
	}
	return program.Run()
}

// unprivileged returns a user who may run the server, and gives dir to it; nil if this
// process is not root's.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// start starts the server, and returns when it answers queries. After a SIGKILL the
// server's other processes end a little later than the first one: until then a new server
// finds their shared memory in use and ends at once, and start tries again.
func (s *postgresServer) start() error {
	if err := s.process.start(); err != nil {
		return err
	}
	var failure error // of the last server that has ended at once
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := s.ask()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			s.kill()
			return fmt.Errorf("PostgreSQL does not come up: %w", errors.Join(err, failure))
		}
		select {
		case <-s.ended:
			failure = s.failure
			if err := s.process.start(); err != nil {
				return err
			}
		default:
		}
	}
}

func (s *postgresServer) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://"+s.addr+postgresOptions)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx)
}
