package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func names(seen membership.Workers) string {
	var out []string
	for _, w := range seen.Live {
		out = append(out, w.Name)
	}
	return strings.Join(out, " ")
}

// Without sessions a worker lives as long as its lease, which it renews; then its entry is removed.
func TestWorkersByLease(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	look := func(want string) membership.Workers {
		t.Helper()
		seen, err := directory(env.Client).Workers(ctx)
		fixture.Must(t, err)
		if got := names(seen); got != want {
			t.Fatalf("alive are %q, want %q", got, want)
		}
		return seen
	}
	seen := look("")
	b, err := directory(env.Client).Register(ctx, model.WorkerInfo{Name: "b", Version: "v1", Observers: []string{"o"}, Columns: "x"}, seen)
	fixture.Must(t, err)
	a, err := directory(env.NewClient()).Register(ctx, model.WorkerInfo{Name: "a"}, seen)
	fixture.Must(t, err)
	seen = look("a b")
	if got := seen.Live[1]; fmt.Sprint(got) != fmt.Sprint(b) || got.Started == 0 || got.Expires <= seen.Now || got.Session != "" {
		t.Errorf("%+v was announced, %+v is read", b, got)
	}
	if directory(env.Client).Due(a, seen) || directory(env.Client).Due(b, seen) || !directory(env.Client).Due(model.WorkerInfo{Name: "c"}, seen) {
		t.Error("who has just announced itself is not due, who is not in the list is")
	}
	env.Clock.Advance(11 * time.Second)
	if seen = look("a b"); !directory(env.Client).Due(b, seen) {
		t.Error("a lease of which a third has passed is not due")
	}
	again, err := directory(env.Client).Register(ctx, b, seen)
	fixture.Must(t, err)
	if again.Started != b.Started || again.Expires <= b.Expires {
		t.Errorf("%+v was renewed to %+v", b, again)
	}
	env.Clock.Advance(20 * time.Second) // a's lease ends, b's was renewed
	look("b")
	if n := fixture.CellsOf(t, ctx, env, "percolator_meta", "meta"); n != metaCells(t, env)+1 {
		t.Errorf("the entry of a dead worker is still there: %d cells", n)
	}
	fixture.Must(t, directory(env.Client).Deregister(ctx, b))
	look("")
}

// metaCells is how many cells percolator_meta has without workers.
func metaCells(t *testing.T, env *percolatortest.Env) int {
	t.Helper()
	row, err := env.Store().Open("percolator_meta").ReadRow(t.Context(), "meta")
	fixture.Must(t, err)
	return len(row["meta"])
}

// With sessions a worker is dead as soon as its session is, and alive without renewals while it
// lasts; an oracle that does not answer leaves it alive until its lease ends.
func TestWorkersBySession(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	var r fixture.Registrar
	observer, dying := r.Client(env), r.Client(env)
	w, err := directory(dying).Register(ctx, model.WorkerInfo{Name: "w"}, membership.Workers{})
	fixture.Must(t, err)
	if w.Session != "session-2" {
		t.Fatalf("announced with session %q", w.Session)
	}
	env.Clock.Advance(90 * time.Second)
	seen, err := directory(observer).Workers(ctx)
	fixture.Must(t, err)
	if names(seen) != "w" || directory(dying).Due(w, seen) || !directory(observer).Due(w, seen) {
		t.Errorf("alive are %q; due %v, and with another session %v", names(seen), directory(dying).Due(w, seen), directory(observer).Due(w, seen))
	}
	r.Down.Store(true)
	r.End("session-2")
	if seen, err = directory(observer).Workers(ctx); err != nil || names(seen) != "w" {
		t.Errorf("alive are %q, %v while the oracle does not answer", names(seen), err)
	}
	r.Down.Store(false)
	for range 2 {
		if seen, err = directory(observer).Workers(ctx); err != nil || names(seen) != "" {
			t.Errorf("alive are %q, %v after the end of the session", names(seen), err)
		}
	}
	if n := fixture.CellsOf(t, ctx, env, "percolator_meta", "meta"); n != metaCells(t, env) {
		t.Errorf("the entry of a worker whose session has ended is still there: %d cells", n)
	}
	if _, err = directory(dying).Register(ctx, w, seen); err != nil {
		t.Fatal(err)
	}
	env.Clock.Advance(6 * time.Minute)
	if seen, err = directory(env.Client).Workers(ctx); err != nil || names(seen) != "" { // its oracle keeps no sessions
		t.Errorf("alive are %q, %v after the end of the lease", names(seen), err)
	}
}

// What is in the row cannot hide a worker, nor invent one for long.
func TestWorkersPassOverGarbage(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	w, err := directory(env.Client).Register(ctx, model.WorkerInfo{Name: "w"}, membership.Workers{})
	fixture.Must(t, err)
	mut := bigtable.NewMutation()
	for column, value := range map[string]string{
		"worker:":                           `{}`,
		"worker:empty":                      "",
		"worker:text":                       "text",
		"worker:array":                      "[]",
		"worker:forever":                    `{"Expires":9223372036854775807}`,
		"worker:expired":                    `{"Expires":1}`,
		"worker:negative":                   `{"Expires":-5}`,
		"worker:longer":                     fmt.Sprintf(`{"Expires":%d}`, w.Expires.Add(time.Minute)),
		"worker:long":                       fmt.Sprintf(`{"Expires":%d,"Version":%q}`, w.Expires, strings.Repeat("x", 5000)),
		"worker:\xff":                       fmt.Sprintf(`{"Expires":%d}`, w.Expires),
		"worker:session":                    fmt.Sprintf(`{"Expires":%d,"Session":%q}`, w.Expires, strings.Repeat("s", 65)),
		"bounds":                            `{"t":{"Made":9223372036854775807,"Keys":["YQ=="]},"u":{"Made":1,"Keys":["","Yg==","YQ==","Yg=="]},"v":null}`,
		"of another kind":                   "anything",
		"worker:" + strings.Repeat("n", 65): fmt.Sprintf(`{"Expires":%d}`, w.Expires),
	} {
		mut.Set("meta", column, 1000, []byte(value))
	}
	fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "workers", mut))
	seen, err := directory(env.Client).Workers(ctx)
	fixture.Must(t, err)
	if names(seen) != "w" {
		t.Errorf("alive are %q", names(seen))
	}
	if _, ok := seen.Bounds["t"]; ok || fmt.Sprint(seen.Bounds["u"].Keys) != "[a b]" {
		t.Errorf("bounds %v", seen.Bounds)
	}
	row, err := env.Store().Open("percolator_meta").ReadRow(ctx, "workers")
	fixture.Must(t, err)
	if len(row["meta"]) != 3 { // w, the bounds, and what this version does not know
		t.Errorf("left are %v", row["meta"])
	}
	for _, bad := range []string{"text", "[]", "{", strings.Repeat(" ", 2<<20)} {
		mut := bigtable.NewMutation()
		mut.Set("meta", "bounds", 1000, []byte(bad))
		fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "workers", mut))
		if seen, err := directory(env.Client).Workers(ctx); err != nil || len(seen.Bounds) != 0 || names(seen) != "w" {
			t.Errorf("bounds %.10q: %v, %v, %q", bad, err, seen.Bounds, names(seen))
		}
	}
}

// Bounds are replaced by who has seen the last ones.
func TestBoundsAreReplacedOnTheirFormerValue(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	look := func() membership.Workers {
		seen, err := directory(env.Client).Workers(ctx)
		fixture.Must(t, err)
		return seen
	}
	set := func(seen membership.Workers, want bool, keys ...string) {
		t.Helper()
		got, err := directory(env.Client).SetBounds(ctx, seen, map[string]model.TableBounds{"t": {Made: seen.Now, Keys: keys}})
		if err != nil || got != want {
			t.Errorf("SetBounds: %v, %v, want %v", got, err, want)
		}
	}
	first := look()
	set(first, true, "\xff\x00", strings.Repeat("z", 100))
	set(first, false, "late")
	second := look()
	if k := second.Bounds["t"].Keys; len(k) != 2 || k[0] != strings.Repeat("z", membership.MaxBoundBytes) || k[1] != "\xff\x00" {
		t.Errorf("keys %q", k)
	}
	set(second, true, "m")
	set(second, false, "late")
	if k := look().Bounds["t"].Keys; len(k) != 1 || k[0] != "m" {
		t.Errorf("keys %q", k)
	}
	_, err := directory(env.Client).SetBounds(ctx, look(), map[string]model.TableBounds{"t": {Keys: make([]string, membership.MaxBoundKeys+1)}})
	if !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("too many bounds: %v", err)
	}
}

func TestAnnounceRefuses(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	var full membership.Workers
	for i := range model.MaxWorkers {
		full.Live = append(full.Live, model.WorkerInfo{Name: fmt.Sprint(i)})
	}
	for _, c := range []struct {
		w    model.WorkerInfo
		seen membership.Workers
		want error
	}{
		{model.WorkerInfo{}, membership.Workers{}, percolator.ErrInvalidArgument},
		{model.WorkerInfo{Name: "\xff"}, membership.Workers{}, percolator.ErrInvalidArgument},
		{model.WorkerInfo{Name: strings.Repeat("n", 65)}, membership.Workers{}, percolator.ErrInvalidArgument},
		{model.WorkerInfo{Name: "n", Version: strings.Repeat("v", 5000)}, membership.Workers{}, percolator.ErrTooLarge},
		{model.WorkerInfo{Name: "n"}, full, percolator.ErrTooLarge},
		{model.WorkerInfo{Name: "7"}, full, nil},
	} {
		if _, err := directory(env.Client).Register(ctx, c.w, c.seen); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%.20q: %v, want %v", c.w.Name, err, c.want)
		}
	}
}

func TestReadPendingRefuses(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	for _, most := range []int{-1, 0, reads.MaxPendingRows + 1} {
		if _, err := env.Client.Engine().Reads.ReadPending(ctx, "t", percolator.All(), most, 0); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%d rows: %v", most, err)
		}
	}
	if _, err := env.Client.Engine().Reads.ReadPending(ctx, "none", percolator.All(), 1, 0); !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Errorf("a table that is not there: %v", err)
	}
	if page, err := env.Client.Engine().Reads.ReadPending(ctx, "t", percolator.Between("b", "a"), 1, 0); err != nil || page.More || len(page.Rows) != 0 {
		t.Errorf("an empty range: %v, %v", page, err)
	}
}

func directory(c *percolator.Client) membership.Directory {
	return membership.Directory{Engine: c.Engine()}
}
