package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// A seed decides the faults. For it to decide who runs next as well, the program is built once more
// with a runtime whose choices within a bubble depend on nothing but the bubble: it draws from
// random numbers that the bubble has of its own, and neither the wall clock nor the collector of
// garbage nor a system call takes the processor away. Everything else is Go's.
//
// Rejected: compiling to WebAssembly, whose host can decide the same, takes an order of magnitude
// more time; a scheduler of ours at each request leaves the choices between requests open.

// edit changes a file of Go's library.
type edit struct{ file, old, new string }

var edits = []edit{
	{"runtime/synctest.go", "type synctestBubble struct {\n", "type synctestBubble struct {\n\tdrawn uint64 // random numbers\n"},
	{"runtime/rand.go", "func rand() uint64 {\n", `func rand() uint64 {
	if b := getg().bubble; b != nil {
		return b.draw()
	}
	return outside.draw()
}

var outside synctestBubble // for goroutines in no bubble

func randOfM() uint64 {
`},
	{"runtime/rand.go", "\tmp.cheaprand = rand()\n", "\tmp.cheaprand = randOfM()\n"},
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := randn(uint32(norder + 1))"},
	// A timer draws once: when it leaves the heap of timers and comes back depends on more than the
	// bubble.
	{"runtime/time.go", "t.rand = cheaprand()", "if t.rand == 0 {\n\t\t\t\tt.rand = uint32(rand()) | 1\n\t\t\t}"},
	{"runtime/time.go", "return tw.timer.rand < other.timer.rand", "return tw.timer.rand*uint32(tw.when|1) < other.timer.rand*uint32(tw.when|1)"},
	{"runtime/rand.go", "// rand32 is uint32(rand())", `// draw is the next number of splitmix64.
//
//go:nosplit
func (b *synctestBubble) draw() uint64 {
	b.drawn += 0x9e3779b97f4a7c15
	x := b.drawn
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// rand32 is uint32(rand())`},
	// Whether a type assertion is kept for the next time, in memory of the heap, does not depend on
	// the thread.
	{"runtime/iface.go", "if cheaprand()&1023 != 0 {\n\t\t// Only bother updating the cache ~1 in 1000 times.\n\t\treturn", "if uint32(rand())&1023 != 0 {\n\t\treturn"},
	{"runtime/iface.go", "if cheaprand()&1023 != 0 {\n\t\t// Only bother updating the cache ~1 in 1000 times.\n\t\t// This", "if uint32(rand())&1023 != 0 {\n\t\t// This"},
	{"runtime/iface.go", "if cheaprand()&uint32(oldC.Mask) != 0 {\n\t\t// As cache gets larger, choose to update it less often\n\t\t// so we can amortize the cost of building a new cache.", "if uint32(rand())&uint32(oldC.Mask) != 0 {"},
	{"runtime/iface.go", "if cheaprand()&uint32(oldC.Mask) != 0 {\n\t\t// As cache gets larger, choose to update it less often\n\t\t// so we can amortize the cost of building a new cache\n", "if uint32(rand())&uint32(oldC.Mask) != 0 {\n"},
	// The seeds of hashes.
	{"runtime/rand.go", "\tglobalRand.state.Init(*seed)\n", "\tclear(seed[:])\n\tglobalRand.state.Init(*seed)\n"},
	// A mutex hands itself over to those that have waited for a millisecond.
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n\tif b := getg().bubble; b != nil {\n\t\treturn b.now\n\t}\n"},
	// No goroutine is interrupted after 10 ms, and none overtakes the queue at every 61st turn.
	{"runtime/proc.go", "func preemptone(pp *p) bool {\n", "func preemptone(pp *p) bool {\n\tif gp := pp.m.ptr(); gp == nil || gp.curg == nil || gp.curg.bubble != nil {\n\t\treturn false\n\t}\n"},
	// While a goroutine is in a system call no other one runs, however long that takes.
	{"runtime/proc.go", "\t\tsysretake := false\n", "\t\tsysretake := false\n\t\tif mp := pp.m.ptr(); mp != nil {\n\t\t\tif gp := mp.curg; gp != nil && gp.bubble != nil {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t}\n"},
	// There is one processor, so the one that makes a goroutine ready never finds another one idle.
	{"runtime/proc.go", "if sched.nmspinning.Load() != 0 ||", "if gomaxprocs == 1 || sched.nmspinning.Load() != 0 ||"},
	// Memory is not given back, as allocation passes over what is being given back.
	{"runtime/mgcscavenge.go", "\tc <- 1\n\tscavenger.park()\n", "\tc <- 1\n\tfor {\n\t\tscavenger.park()\n\t}\n"},
	{"runtime/proc.go", "if pp.schedtick%61 == 0 && ", "if false && "},
	// Goroutines start with what most of them need: to grow each takes a tenth of the time.
	{"runtime/stack.go", "var startingStackSize uint32 = fixedStack\n", "var startingStackSize uint32 = 8 << 10\n"},
	{"runtime/stack.go", "debug.adaptivestackstart == 0", "true"},
	// Much is allocated and little is kept, so the kernel clears pages by the two megabytes.
	{"runtime/mem_linux.go", "	setVMAName(p, n, vmaName)\n\n	// Disable", "	setVMAName(p, n, vmaName)\n	sysHugePageOS(v, n)\n\n	// Disable"},
	// Every process has the same number, on the same machine.
	{"os/exec.go", "func Getpid() int { return syscall.Getpid() }", "func Getpid() int { return 1 }"},
	{"os/sys.go", "\treturn hostname()\n", "\treturn \"simulated\", nil\n"},
	// The children of a context are cancelled in the order in which they came, not by their
	// addresses.
	{"context/context.go", "children map[canceler]struct{} //", "children map[canceler]uint64 //"},
	{"context/context.go", "make(map[canceler]struct{})", "make(map[canceler]uint64)"},
	{"context/context.go", "p.children[child] = struct{}{}", "p.children[child] = came.Add(1)"},
	{"context/context.go", "\tfor child := range c.children {\n", "\tfor _, child := range inOrder(c.children) {\n"},
	{"context/context.go", "type canceler interface {\n", `var came atomic.Uint64

func inOrder(children map[canceler]uint64) []canceler {
	all := make([]canceler, 0, len(children))
	for child := range children {
		all = append(all, child)
	}
	slices.SortFunc(all, func(a, b canceler) int { return int(children[a]) - int(children[b]) })
	return all
}

type canceler interface {
`},
	{"context/context.go", "\t\"sync\"\n", "\t\"slices\"\n\t\"sync\"\n"},
}

// The schedulers.
const (
	seeded = "seeded"
	ofGo   = "go"
)

// build builds the program with that runtime, and with other files in the place of some. It needs
// the go command and the sources.
func (f *flags) build(ctx context.Context, dir string) (string, error) {
	switch f.scheduler {
	case seeded:
	case ofGo:
		return os.Executable()
	default:
		return "", fmt.Errorf("--scheduler is %s or %s, not %q", seeded, ofGo, f.scheduler)
	}
	replace, err := f.library(ctx, dir)
	if err != nil {
		return "", err
	}
	if f.overlay != "" {
		text, err := os.ReadFile(f.overlay)
		if err != nil {
			return "", err
		}
		var others struct{ Replace map[string]string }
		if err := json.Unmarshal(text, &others); err != nil {
			return "", fmt.Errorf("%s: %w", f.overlay, err)
		}
		for file, by := range others.Replace {
			replace[file] = by
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay, program := filepath.Join(dir, "overlay.json"), cmp.Or(f.buildOnly, filepath.Join(dir, "simulate"))
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	_, err = goCommand(ctx, "build", "-trimpath", "-ldflags", "-X testing.testBinary=1", "-overlay", overlay, "-o", program, "github.com/gopercolator/percolator/emulator_test/simulate")
	return program, err
}

func (f *flags) writeProgram(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "percolator-simulate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = f.build(ctx, dir)
	return err
}

// library edits copies of files of Go's library.
func (f *flags) library(ctx context.Context, dir string) (replace map[string]string, err error) {
	root, err := goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	replace = map[string]string{}
	for _, e := range edits {
		file := filepath.Join(root, "src", filepath.FromSlash(e.file))
		from := file
		if replace[file] != "" {
			from = replace[file]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if strings.Count(string(text), e.old) != 1 {
			return nil, fmt.Errorf("%s is not as it was in Go 1.26: it does not hold %q once", file, e.old)
		}
		replace[file] = filepath.Join(dir, path.Base(e.file))
		if err := os.WriteFile(replace[file], []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return nil, err
		}
	}
	return replace, nil
}

func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
