package percolator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A client without a worker reports what it has counted, at a cost that does not depend on what it
// does, and takes its report back when it closes.
func TestClientsReport(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		reporting := percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableReports = false })
		c := env.NewClient(reporting)
		fixture.Put(t, ctx, c, "a", "c", "v")
		if list := reportsOf(t, env); len(list) != 0 {
			t.Fatalf("a client reports at once: %+v", list)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		list := reportsOf(t, env)
		if len(list) != 1 || list[0].HasWorker() || list[0].Stats.Transactions != 1 || list[0].PID == 0 {
			t.Fatalf("reported %+v", list)
		}
		for range 100 {
			fixture.Put(t, ctx, c, "a", "c", "v")
		}
		env.FaultsOf(c).Forget()
		time.Sleep(time.Minute)
		synctest.Wait()
		writes := 0
		for _, r := range env.FaultsOf(c).Requests() {
			if r.Table == "percolator_meta" && r.Method == percolatortest.MutateRows && r.Row == "reports" {
				writes++
			}
		}
		if writes < 6 || writes > 8 {
			t.Errorf("%d reports in a minute", writes)
		}
		if list = reportsOf(t, env); len(list) != 1 || list[0].Stats.Transactions != 101 {
			t.Errorf("reported %+v", list)
		}
		fixture.Must(t, c.Close())
		if list = reportsOf(t, env); len(list) != 0 {
			t.Errorf("a closed client has left %+v", list)
		}
	})
}

// A client that was told not to report writes nothing.
func TestDisableReports(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		fixture.Put(t, fixture.Context(t), env.Client, "a", "c", "v")
		time.Sleep(time.Minute)
		synctest.Wait()
		if list := reportsOf(t, env); len(list) != 0 {
			t.Errorf("reported %+v", list)
		}
	})
}

func reportsOf(t *testing.T, env *percolatortest.Env) []model.Report {
	t.Helper()
	list, err := admin.New(env.Client).Reports(fixture.Context(t))
	fixture.Must(t, err)
	return list
}
