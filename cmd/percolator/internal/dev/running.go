package dev

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

// strangersGone is how long after a crash programs that live on may still send what belongs to
// commits that the snapshot lacks: no request of a commit is sent later
// (docs/internals/PROTOCOL.md, I14), and this is a little more.
const strangersGone = 32 * time.Second

// runningMark is a file beside the snapshot that is there while a process uses it, and after one
// that has not ended in order. Its time is when that process was last seen.
type runningMark struct {
	path string
	stop context.CancelFunc
	done chan struct{}
}

// afterCrash waits, if the process before has crashed, until no process continues what the
// snapshot does not have: phase two of a commit that is lost would leave records without data.
func afterCrash(ctx context.Context, path string, logger *slog.Logger) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	left := min(strangersGone-time.Since(info.ModTime()), strangersGone)
	if left <= 0 {
		return nil
	}
	logger.Warn("the previous process did not end in order: waiting until surviving programs cannot finish lost transactions; restart those programs", "for", left.Round(time.Second))
	return cli.Sleep(ctx, left)
}

func markRunning(path string) (*runningMark, error) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &runningMark{path: path, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				_ = os.Chtimes(path, now, now)
			}
		}
	}()
	return m, nil
}

// end says that the process has ended in order.
func (m *runningMark) end() error {
	m.stop()
	<-m.done
	return os.Remove(m.path)
}
