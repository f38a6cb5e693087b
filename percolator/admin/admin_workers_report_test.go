package admin_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

const reportEvery = 10 * time.Second

func mustReporter(t testing.TB, c *percolator.Client, name string) *membership.Reporter {
	t.Helper()
	r, err := membership.NewReporter(c.Engine(), name, reportEvery)
	fixture.Must(t, err)
	return r
}

func reportsOf(t testing.TB, c *percolator.Client) []model.Report {
	t.Helper()
	list, err := admin.New(c).Reports(fixture.Context(t))
	fixture.Must(t, err)
	return list
}

func reporters(list []model.Report) (out []string) {
	for _, r := range list {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return out
}

func TestReportsAreListedUntilTakenBack(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "v")
	if got := reportsOf(t, env.Client); len(got) != 0 {
		t.Errorf("there are %d reports", len(got))
	}
	one, two := mustReporter(t, env.Client, "one"), mustReporter(t, env.Client, "two")
	said := model.WorkerReport{Found: 3, BacklogMillis: 7, Observers: map[string]model.ObserverReport{"o": {Runs: 5, Attempts: 6}}}
	fixture.Must(t, one.Store(ctx, said))
	fixture.Must(t, two.Store(ctx, model.WorkerReport{}))
	other := env.NewClient()
	list := reportsOf(t, other)
	if got := reporters(list); !slices.Equal(got, []string{"one", "two"}) {
		t.Fatalf("reports of %v", got)
	}
	r := list[slices.IndexFunc(list, func(r model.Report) bool { return r.Name == "one" })]
	if r.PID == 0 || r.Started == 0 || r.Written < r.Started || r.Expires.Sub(r.Written) < 2*reportEvery ||
		r.Stats.Transactions != 1 || r.Stats.Latency["commit"].Count != 1 || r.Worker.Found != 3 || r.Worker.BacklogMillis != 7 || r.Worker.Observers["o"].Runs != 5 {
		t.Errorf("reported %+v", r)
	}

	// A second report replaces the first, and one that is taken back is gone.
	said.Found = 4
	fixture.Must(t, one.Store(ctx, said))
	fixture.Must(t, two.Remove(ctx))
	if list = reportsOf(t, other); len(list) != 1 || list[0].Worker.Found != 4 || list[0].Started != r.Started {
		t.Errorf("reported %+v", list)
	}
}

// Looking costs one read, and reporting one write.
func TestReportsRequests(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "v") // it knows the time
	r := mustReporter(t, env.Client, "one")
	fixture.Must(t, r.Store(ctx, model.WorkerReport{})) // looks for room
	env.FaultsOf(env.Client).Forget()
	for range 3 {
		fixture.Must(t, r.Store(ctx, model.WorkerReport{}))
		reportsOf(t, env.Client)
	}
	got := map[string]int{}
	for _, r := range env.FaultsOf(env.Client).Requests() {
		if m, ok := r.Message.(interface{ GetRowKey() []byte }); !ok || string(m.GetRowKey()) != "meta" {
			got[r.Method]++
		}
	}
	if got["MutateRows"] != 3 || got["Oracle"] != 0 || got["CheckAndMutateRow"] != 0 || got["ReadRows"] < 3 || got["ReadRows"] > 4 {
		t.Errorf("sent %v", got)
	}
}

// What is not renewed expires by the oracle's time, and is removed by whoever reports first
// thereafter.
func TestReportsExpire(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	ctx := fixture.Context(t)
	fixture.Must(t, mustReporter(t, env.Client, "dead").Store(ctx, model.WorkerReport{}))
	plantReport(t, env, "report:damaged", "{")
	plantReport(t, env, "report:future", `{"expires": 9000000000000000000}`)
	plantReport(t, env, "report:large", strings.Repeat(" ", membership.MaxReportBytes)+"{}")
	env.Clock.Advance(3*reportEvery + 6*time.Second)
	fresh := env.NewClient()
	fixture.Must(t, fixture.ErrOf(fresh.Snapshot(ctx)))
	if got := reporters(reportsOf(t, fresh)); len(got) != 0 {
		t.Errorf("reports of %v", got)
	}
	if n := storedReports(t, env); n != 4 {
		t.Errorf("looking has removed %d reports", 4-n)
	}
	fixture.Must(t, mustReporter(t, fresh, "live").Store(ctx, model.WorkerReport{}))
	if got := reporters(reportsOf(t, fresh)); !slices.Equal(got, []string{"live"}) {
		t.Errorf("reports of %v", got)
	}
	if n := storedReports(t, env); n != 1 {
		t.Errorf("%d reports are stored", n)
	}
}

// With sessions a process that has crashed is gone from the list when its session is, and not when
// its report expires. An oracle that does not answer leaves it there until then.
func TestReportsBySession(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	ctx := fixture.Context(t)
	var r fixture.Registrar
	observer, crashed := r.Client(env), r.Client(env)
	fixture.Must(t, mustReporter(t, crashed, "crashed").Store(ctx, model.WorkerReport{}))
	fixture.Must(t, mustReporter(t, env.Client, "without a session").Store(ctx, model.WorkerReport{}))
	plantReport(t, env, "report:hostile", `{"session": "`+strings.Repeat("x", 1000)+`", "expires": `+fmt.Sprint(int64(tso.At(time.Now().Add(time.Minute))))+`}`)
	list := reportsOf(t, observer)
	if i := slices.IndexFunc(list, func(r model.Report) bool { return r.Name == "crashed" }); i < 0 || list[i].Session != "session-2" || len(list) != 3 {
		t.Fatalf("reported %+v", list)
	}
	r.Down.Store(true)
	r.End("session-2")
	if got := reporters(reportsOf(t, observer)); len(got) != 3 {
		t.Errorf("reports of %v while the oracle does not answer", got)
	}
	r.Down.Store(false)
	if got := reporters(reportsOf(t, observer)); !slices.Equal(got, []string{"hostile", "without a session"}) {
		t.Errorf("reports of %v after the end of the session", got)
	}
	if got := reporters(reportsOf(t, env.Client)); len(got) != 3 { // its oracle keeps no sessions
		t.Errorf("reports of %v without sessions", got)
	}
}

func TestReportLimits(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	for _, name := range []string{"", strings.Repeat("n", 65), "\xff"} {
		_, err := membership.NewReporter(env.Client.Engine(), name, reportEvery)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
	for _, interval := range []time.Duration{0, -1, membership.MaxReportInterval + 1} {
		_, err := membership.NewReporter(env.Client.Engine(), "n", interval)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}

	// More observers than fit: the busiest are named.
	many := map[string]model.ObserverReport{}
	for i := range 500 {
		many[fmt.Sprintf("observer-%03d", i)] = model.ObserverReport{Attempts: int64(i)}
	}
	one := mustReporter(t, env.Client, "one")
	fixture.Must(t, one.Store(ctx, model.WorkerReport{Observers: many}))
	w := reportsOf(t, env.Client)[0].Worker
	if _, named := w.Observers["observer-499"]; !named || len(w.Observers) < 5 || len(w.Observers)+w.LeftOut != 500 {
		t.Errorf("%d observers are named, %d left out", len(w.Observers), w.LeftOut)
	}

	// More processes than may report.
	stored, err := json.Marshal(model.Report{Expires: reportsOf(t, env.Client)[0].Expires})
	fixture.Must(t, err)
	plant := func(from, to int) {
		for i := from; i < to; i++ {
			plantReport(t, env, fmt.Sprintf("report:p%04d", i), string(stored))
		}
	}
	const clients = model.MaxReports - model.MaxWorkers
	plant(0, clients-1)
	client := mustReporter(t, env.Client, env.Client.Engine().ID)
	fixture.WantErr(t, client.Store(ctx, model.WorkerReport{}), percolator.ErrTooLarge) // with one
	worker := mustReporter(t, env.Client, "worker")
	fixture.Must(t, worker.Store(ctx, model.WorkerReport{})) // there is still room for workers
	fixture.Must(t, worker.Remove(ctx))
	plant(clients-1, model.MaxReports)
	fixture.WantErr(t, mustReporter(t, env.Client, "late").Store(ctx, model.WorkerReport{}), percolator.ErrTooLarge)
	fixture.Must(t, one.Store(ctx, model.WorkerReport{})) // whoever is in stays in
	if got := reportsOf(t, env.Client); len(got) != model.MaxReports {
		t.Errorf("%d reports are listed", len(got))
	}
}

func plantReport(t testing.TB, env *percolatortest.Env, column, value string) {
	t.Helper()
	fixture.Plant(t, fixture.Context(t), env, "percolator_meta", "reports", "meta", column, 1000, value)
}

func storedReports(t testing.TB, env *percolatortest.Env) (n int) {
	t.Helper()
	row, err := env.Store().Open("percolator_meta").ReadRow(fixture.Context(t), "reports", bigtable.RowFilter(bigtable.LatestNFilter(1)))
	fixture.Must(t, err)
	return len(row["meta"])
}
