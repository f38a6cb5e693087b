package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gopercolator/percolator/internal/history"
	"github.com/gopercolator/percolator/internal/simulation"
)

// divide has processes run the episodes, and adds up what they tell.
func (f *flags) divide(ctx context.Context, out io.Writer) error {
	if f.jobs < 1 || f.size < 1 {
		return errors.New("--jobs and --size must be positive")
	}
	if f.one {
		f.jobs = 1
	}
	dir, err := os.MkdirTemp("", "percolator-simulate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if f.program == "" {
		if f.program, err = f.build(ctx, dir); err != nil {
			return err
		}
	}
	t := &total{flags: f, out: out, begun: time.Now()}
	ctx, t.stop = context.WithCancel(ctx)
	defer t.stop()
	errs := make([]error, f.jobs)
	var working sync.WaitGroup
	for job := range f.jobs {
		working.Go(func() { errs[job] = f.share(ctx, f.episode+uint64(job), t.add) })
	}
	working.Wait()
	t.print()
	if t.failed > 0 {
		return fmt.Errorf("%d of %d episodes failed", t.failed, t.episodes)
	}
	return errors.Join(errs...)
}

// share runs a share of the episodes in a process. After one that ends the process there is
// another.
func (f *flags) share(ctx context.Context, episode uint64, tell func(told)) error {
	begun := time.Now()
	for ctx.Err() == nil {
		last, stderr, err := f.process(ctx, episode, f.duration-time.Since(begun), tell)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if last.Report != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		tell(told{Episode: last.Episode, Report: &simulation.Report{History: &history.Report{}}, Error: fmt.Sprintf("%v: %s", err, stderr)})
		if episode = last.Episode + uint64(f.jobs); f.one || time.Since(begun) >= f.duration {
			return nil
		}
	}
	return ctx.Err()
}

// process runs a process and passes on what it tells.
func (f *flags) process(ctx context.Context, episode uint64, d time.Duration, tell func(told)) (last told, stderr string, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return last, "", err
	}
	defer from.Close()
	cmd := exec.CommandContext(ctx, f.program, f.arguments(episode, d)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.ExtraFiles = []*os.File{to}
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Start()
	_ = to.Close()
	if err != nil {
		return last, "", err
	}
	stuck := time.AfterFunc(stuckAfter, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer stuck.Stop()
	for decode := json.NewDecoder(from); ; stuck.Reset(stuckAfter) {
		var next told
		if decode.Decode(&next) != nil {
			break
		}
		if last = next; last.Report != nil {
			tell(last)
		}
	}
	err = cmd.Wait()
	return last, said.String(), err
}

// stuckAfter is how long an episode may take, in real time: virtual time stands still while anybody
// waits for a mutex.
const stuckAfter = 3 * time.Minute

// arguments are those of a process.
func (f *flags) arguments(episode uint64, d time.Duration) []string {
	args := []string{"simulate", "--job", "--seed", fmt.Sprint(f.seed), "--for", d.String(), "--transactions", strconv.Itoa(f.transactions),
		"--size", strconv.Itoa(f.size), "--faults", f.faults, "--jobs", strconv.Itoa(f.jobs), "--episode", fmt.Sprint(episode)}
	if f.trace != "" {
		args = append(args, "--trace", f.trace)
	}
	if f.one {
		args = append(args, "--one")
	}
	if f.cpuProfile != "" {
		args = append(args, "--cpuprofile", fmt.Sprintf("%s.%d", f.cpuProfile, episode))
	}
	return args
}
