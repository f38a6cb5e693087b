package loader_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Above level Debug a loader logs the kind of a failure and no row keys, whatever fails.
func TestLoadersLogNoRowKeys(t *testing.T) { inBubble(t, testLoadersLogNoRowKeys) }

func testLoadersLogNoRowKeys(t *testing.T) {
	const secret = "secret-"
	e := bulkEnv(t)
	for what, is := range map[string]func(percolatortest.Request) bool{
		"prewrite": fixture.IsPrewrite, "commit": fixture.IsCommit, "read": func(r percolatortest.Request) bool {
			return r.Table == "o" && !fixture.IsPrewrite(r) && !fixture.IsCommit(r)
		},
	} {
		var warnings, all bytes.Buffer
		logger := slog.New(slog.NewMultiHandler(slog.NewTextHandler(&warnings, nil), slog.NewTextHandler(&all, &slog.HandlerOptions{Level: slog.LevelDebug})))
		c := e.NewClient()
		var down atomic.Bool
		down.Store(true)
		e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if down.Load() && is(r) {
				return percolatortest.LoseRequest
			}
			return percolatortest.Pass
		})
		up := time.AfterFunc(2*time.Minute, func() { down.Store(false) })
		_, err := loader.Load(e.ctx, c, loader.Config{Name: what, Logger: logger, Timeout: time.Minute, OutageTimeout: 10 * time.Minute}, loader.Job[string]{
			Source: source(secret, 2),
			Write: loader.Each(func(ctx context.Context, tx *percolator.Txn, row string) error {
				at := percolator.Cell{Table: "o", Row: row, Column: "c"}
				if _, err := tx.GetMulti(ctx, at); err != nil {
					return err
				}
				return tx.Set(at, []byte("v"))
			}),
		})
		up.Stop()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if text := warnings.String(); strings.Contains(text, secret) || !strings.Contains(text, "kind=") {
			t.Errorf("%s: logged %s", what, text)
		}
		if text := all.String(); !strings.Contains(text, "err=") {
			t.Errorf("%s: logged at level Debug: %s", what, text)
		}
	}
}
