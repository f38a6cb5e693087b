package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// noSession is a session that cannot be opened while the oracle gives timestamps.
type noSession struct{}

func (noSession) OpenSession() (coordination.Session, error)                 { return noSession{}, nil }
func (noSession) EndedSessions(context.Context, ...string) ([]string, error) { return nil, nil }
func (noSession) ID() string                                                 { return "" }
func (noSession) Close(context.Context) error                                { return nil }

// Only a client's first commits wait for a session that does not come.
func TestCommitsDoNotEachWaitForASession(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCommitsDoNotEachWaitForASession)
}

func testCommitsDoNotEachWaitForASession(t *testing.T) {
	w := newWorld(t)
	c := w.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.Oracle = struct {
			tso.Oracle
			coordination.Sessions
		}{cfg.Oracle, noSession{}}
	}))
	var took time.Duration
	for range 3 {
		tx := fixture.MustBegin(t, w.ctx, c)
		fixture.Must(t, tx.Set(fixture.Cell("r", "plain"), []byte("1")))
		started := time.Now()
		_, err := tx.Commit(w.ctx)
		took = time.Since(started)
		t.Logf("a commit: %v, %v", err, took)
	}
	if took > time.Second {
		t.Errorf("the third commit took %v", took)
	}
}
