package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/internal/children"
)

// stopTimeout is how long a member may take to stop when it is asked to.
const stopTimeout = 20 * time.Second

// process is a member that runs.
type process struct {
	cmd    *exec.Cmd
	output tail
	exited chan struct{}
	err    error // once exited
}

func startProcess(binary string, args, env []string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	children.DieWithParent(p.cmd.SysProcAttr)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) runs() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// kill ends the process at once.
func (p *process) kill() {
	p.signal(syscall.SIGKILL) //nolint:errcheck // it has ended
	<-p.exited
}

// stop asks the process to end, and reports how it did.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("it ended with %w: %s", p.err, p.output.String())
		}
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("it did not stop within %v: %s", stopTimeout, p.output.String())
	}
}

// tail keeps the last lines that a process has written.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailSize = 256 << 10

// Write keeps b, and forgets what came long before.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - tailSize; over > 0 {
		t.last = bytes.Clone(t.last[over:])
	}
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}
