package main

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// On a terminal the countdown stands in the line of the command, and goes with it.
func TestCountdownOnATerminal(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	schema := cellSchema()
	schema.Timing = percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second}
	cl := newCluster(t, schema)
	shown, terminal := openTerminal(t)
	for _, args := range [][]string{{"gc", "run", "--yes"}, {"backup", t.TempDir()}} {
		args = append(args, "--project", cl.project, "--instance", cl.instance, "--tso", cl.tso)
		if code := execute(cl.connected(context.Background()), args, strings.NewReader(""), io.Discard, terminal); code != cli.ExitOK {
			t.Errorf("percolator %s: exit status %d", strings.Join(args, " "), code)
		}
	}
	_ = terminal.Close()
	text := shown()
	for _, want := range []string{"waiting until no client reads the removed versions: 2s left", "waiting until every client knows of the backup: 1s left"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not show %q:\n%q", want, text)
		}
	}
	if strings.Contains(text, "waiting 2s until") {
		t.Errorf("the terminal shows what is for logs:\n%q", text)
	}
}

// openTerminal opens a pseudo-terminal. shown returns what was written to it, once it is closed.
func openTerminal(t *testing.T) (shown func() string, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	control := func(request uintptr, value unsafe.Pointer) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(value)); errno != 0 {
			t.Skipf("the pseudo-terminal cannot be opened: %v", errno)
		}
	}
	var unlock, number int32
	size := [4]uint16{24, 120} // rows and columns; without them nothing has room
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the pseudo-terminal cannot be opened: %v", err)
	}
	var text strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&text, master) // it ends with an error when the terminal is closed
	}()
	return func() string { <-ended; return text.String() }, terminal
}
