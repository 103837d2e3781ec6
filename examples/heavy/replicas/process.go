package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
)

// child is set in the environment of this program's processes. The tests look at it: a
// test binary that finds it runs the program instead of its tests.
const child = "REPLICAS_CHILD"

// process is another process of this program, which can be killed and started again. It
// ends when this process ends, in whatever way. It is not safe for concurrent use.
type process struct {
	path      string // of the program
	arguments []string
	in        io.Reader // nil: nothing
	out       io.Writer
	end       syscall.Signal // asks the process to end

	command *exec.Cmd
	ended   chan struct{} // closed once the process has ended and its output has been copied
	failure error         // how it has ended; to be read once ended is closed
}

// newProcess returns another process of this program.
func newProcess(out io.Writer, arguments ...string) (*process, error) {
	self, err := os.Executable()
	return &process{path: self, arguments: arguments, out: out, end: syscall.SIGTERM}, err
}

// startProcess starts another process of this program.
func startProcess(out io.Writer, arguments ...string) (*process, error) {
	p, err := newProcess(out, arguments...)
	if err != nil {
		return nil, err
	}
	return p, p.start()
}

func (p *process) start() error {
	p.command = exec.Command(p.path, p.arguments...)
	p.command.Stdin, p.command.Stdout, p.command.Stderr = p.in, p.out, os.Stderr
	p.command.Env = append(os.Environ(), child+"=1")
	line, err := lifeline()
	if err != nil {
		return err
	}
	p.command.ExtraFiles = line[:1]
	// A group of its own: Ctrl-C is for the demo, which then ends the others in order.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.arguments[0] == "replica" { // the demo freezes replicas, and a frozen one reads no lifeline
		children.DieWithParent(p.command.SysProcAttr)
	}
	if err := p.command.Start(); err != nil {
		p.command = nil
		return err
	}
	ended, command := make(chan struct{}), p.command
	p.ended = ended
	go func() {
		defer close(ended)
		p.failure = command.Wait()
	}()
	return nil
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.await()
}

// stop asks the process to end, and waits for that; it kills it after ten seconds.
func (p *process) stop() {
	p.signal(syscall.SIGCONT) // it may be frozen
	p.signal(p.end)
	late := time.AfterFunc(10*time.Second, func() { p.signal(syscall.SIGKILL) })
	defer late.Stop()
	p.await()
}

// await waits until the process has ended.
func (p *process) await() {
	if p.command != nil {
		<-p.ended
	}
}

// signal signals the process, and those that it has started.
func (p *process) signal(s syscall.Signal) {
	if p.command == nil {
		return
	}
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.command.Process.Pid, s)
	}
}

// lifeline returns both ends of a pipe on which nothing is sent. Every process gets the
// first, from which one reads. Only this process has the other one, which the system
// closes when this process ends.
var lifeline = sync.OnceValues(func() ([]*os.File, error) {
	reader, writer, err := os.Pipe()
	return []*os.File{reader, writer}, err
})

// lifelineFile is the number of the reading end in the process that was started.
const lifelineFile = 3

// endWithParent ends this process, and those that it has started, when the process that
// has started it ends. A process that is frozen at that moment is killed by Linux (see
// [children.DieWithParent]); other systems send it a SIGHUP if it stood still before its parent ended.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.NewFile(lifelineFile, "lifeline"))
	_ = syscall.Kill(0, syscall.SIGINT) // the group of this process
	time.Sleep(10 * time.Second)
	_ = syscall.Kill(0, syscall.SIGKILL)
}

// awaitAddr waits until somebody listens at addr. It fails if ended is closed before, or
// ctx ends.
func awaitAddr(ctx context.Context, addr string, ended <-chan struct{}) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return fmt.Errorf("the process that was to listen at %s has ended", addr)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("nobody listens at %s", addr)
}
