package percolator_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// newLogging is a client whose log is kept, and that loses what is sent to those who are down.
func newLogging(env *percolatortest.Env) (c *percolator.Client, log *lockedBuffer, store, oracle *atomic.Bool) {
	log, store, oracle = new(lockedBuffer), new(atomic.Bool), new(atomic.Bool)
	c = env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	}), percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle && oracle.Load() || r.Method != percolatortest.Oracle && store.Load() {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	}))
	return c, log, store, oracle
}

func wantLog(t *testing.T, log *lockedBuffer, times map[string]int) {
	t.Helper()
	for text, want := range times {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%d times %q, want %d:\n%s", n, text, want, log.String())
		}
	}
}

// An outage of the store or of the oracle is one warning, after some seconds, and one line when it
// is over. What lasts for a moment is none, nor is a caller that gives up.
func TestOutagesAreLogged(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testOutagesAreLogged)
}

func testOutagesAreLogged(t *testing.T) {
	env := fixture.NewEnv(t)
	ctx := t.Context()
	c, log, store, oracle := newLogging(env)
	ask := func(every, lasts time.Duration) {
		for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(every) {
			short, cancel := context.WithTimeout(ctx, every)
			_ = c.View(short, func(ctx context.Context, s *percolator.Snapshot) error {
				return fixture.ErrOf(s.Get(ctx, fixture.Cell("r", "c")))
			})
			cancel()
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_ = c.View(gone, func(context.Context, *percolator.Snapshot) error { return nil })
	time.Sleep(time.Minute)
	for what, down := range map[string]*atomic.Bool{"the store": store, "the oracle": oracle} {
		before := strings.Count(log.String(), what)
		ask(time.Second, 10*time.Second)
		down.Store(true)
		ask(time.Second, 2*time.Second)
		down.Store(false)
		ask(time.Second, 10*time.Second)
		if n := strings.Count(log.String(), what); n != before {
			t.Errorf("%s is slow for a moment:\n%s", what, log.String())
		}
		down.Store(true)
		ask(time.Second, time.Minute)
		wantLog(t, log, map[string]int{what + " does not answer": 1, what + " answers again": 0})
		down.Store(false)
		ask(time.Second, 10*time.Second)
		wantLog(t, log, map[string]int{what + " does not answer": 1, what + " answers again": 1})
	}
}

// A client says once that its instance is not there any more, whether the schema is gone or an
// older one is stored, and says nothing of one that grows.
func TestReplacedInstanceIsLogged(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testReplacedInstanceIsLogged)
}

func testReplacedInstanceIsLogged(t *testing.T) {
	for _, older := range []bool{false, true} {
		env := fixture.NewEnv(t)
		ctx := t.Context()
		c, log, _, _ := newLogging(env)
		more := fixture.Schema()
		more.Tables = append(more.Tables, percolator.Table{Name: "more"})
		fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, more, env.Options()...))
		time.Sleep(2 * time.Minute)
		wantLog(t, log, map[string]int{"schema changed": 1, "level=ERROR": 0})
		if older {
			row, err := env.Store().Open("percolator_meta").ReadRow(ctx, "meta")
			fixture.Must(t, err)
			fixture.Plant(t, ctx, env, "percolator_meta", "meta", "meta", "version", int64(row["meta"][0].Timestamp), string(binary.BigEndian.AppendUint64(nil, 1)))
		} else {
			m := bigtable.NewMutation()
			m.DeleteRow()
			fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "meta", m))
		}
		time.Sleep(5 * time.Minute)
		wantLog(t, log, map[string]int{"level=ERROR": 1, "the instance is not the one": 1})
		fixture.Must(t, c.Close())
	}
}
