package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// troubled is a cluster with a parked cell and the locks of a dead client.
func troubled(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, 1)
	worker := c.env.NewClient(c.ownOracle())
	o := new(observer)
	stop := c.workUntil(worker, o)
	c.park(o, "r", "no luck")
	stop() // nothing changes any more by itself
	c.strand(time.Hour, percolator.Cell{Table: "words", Row: "w", Column: "count"}, percolator.Cell{Table: "words", Row: "x", Column: "count"})
	return c
}

// stored is every cell of the tables of the schema.
func (c *cluster) stored() string { return c.env.Dump("documents") + c.env.Dump("words") }

func (c *cluster) parkedFields(t *testing.T) url.Values {
	t.Helper()
	for p, err := range observers.ListParked(testContext(t), c.client) {
		if err != nil {
			t.Fatal(err)
		}
		return url.Values{"table": {p.Cell.Table}, "row": {p.Cell.Row}, "column": {p.Cell.Column}, "observer": {p.Observer}, "ts": {fmt.Sprint(int64(p.Through))}}
	}
	t.Fatal("nothing is parked")
	return nil
}

// Whatever is loaded by GET or HEAD, in whatever way, the tables remain as they are: locks are
// looked at and not resolved.
func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	c := troubled(t)
	h := c.handler(func(cfg *Config) { cfg.AllowChanges, cfg.ShowValues = true, true })
	before := c.stored()
	if !strings.Contains(before, "lock") {
		t.Fatalf("there is no lock to leave alone:\n%s", before)
	}
	fields := c.parkedFields(t).Encode()
	paths := []string{"/row?table=words&row=w&values=1", "/row?table=documents&row=r", "/row?table=words&row=w&asof=1ms",
		"/resolve-lock?" + fields, "/retry-parked?" + fields, "/drop-parked?" + fields}
	for path := range everyPage {
		paths = append(paths, path)
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if w := serve(h, local(method, path, nil)); w.Code >= 500 {
				t.Errorf("%s %s: %d\n%s", method, path, w.Code, w.Body)
			}
		}
	}
	if after := c.stored(); after != before {
		t.Errorf("looking changed\n%s\nto\n%s", before, after)
	}
}

// A request that would change something is refused unless changes are enabled and it comes from the
// console's own page.
func TestChangesRefused(t *testing.T) {
	t.Parallel()
	c := troubled(t)
	fields := c.parkedFields(t)
	before := c.stored()
	readOnly, enabled := c.handler(), c.handler(func(cfg *Config) { cfg.AllowChanges = true })
	for name, test := range map[string]struct {
		h      *Handler
		header map[string]string
		fields url.Values
		want   int
	}{
		"read-only":             {readOnly, map[string]string{"Sec-Fetch-Site": "same-origin"}, fields, http.StatusForbidden},
		"another site":          {enabled, map[string]string{"Sec-Fetch-Site": "cross-site"}, fields, http.StatusForbidden},
		"a sibling":             {enabled, map[string]string{"Sec-Fetch-Site": "same-site"}, fields, http.StatusForbidden},
		"typed":                 {enabled, map[string]string{"Sec-Fetch-Site": "none"}, fields, http.StatusForbidden},
		"another origin":        {enabled, map[string]string{"Origin": "http://evil.example"}, fields, http.StatusForbidden},
		"an opaque origin":      {enabled, map[string]string{"Origin": "null"}, fields, http.StatusForbidden},
		"another port":          {enabled, map[string]string{"Origin": "http://localhost:9999"}, fields, http.StatusForbidden},
		"neither header":        {enabled, nil, fields, http.StatusForbidden},
		"an incomplete form":    {enabled, map[string]string{"Sec-Fetch-Site": "same-origin"}, url.Values{"table": {"documents"}}, http.StatusBadRequest},
		"a form that is a book": {enabled, map[string]string{"Sec-Fetch-Site": "same-origin"}, url.Values{"row": {strings.Repeat("x", MaxFormBytes)}}, http.StatusBadRequest},
	} {
		for _, path := range []string{"/resolve-lock", "/retry-parked", "/drop-parked"} {
			r := form(path, test.fields)
			r.Header.Del("Sec-Fetch-Site")
			for k, v := range test.header {
				r.Header.Set(k, v)
			}
			if w := serve(test.h, r); w.Code != test.want {
				t.Errorf("%s: POST %s: %d, want %d", name, path, w.Code, test.want)
			}
		}
	}
	if after := c.stored(); after != before {
		t.Errorf("refused requests changed\n%s\nto\n%s", before, after)
	}
	if body := get(t, readOnly, "/observers") + get(t, readOnly, "/locks"); strings.Contains(body, "<form method=\"post\"") {
		t.Error("a read-only page has buttons that change something")
	}
}

// post sends a form of the console's own and returns where it leads.
func post(t *testing.T, h *Handler, path string, fields url.Values) string {
	t.Helper()
	w := serve(h, form(path, fields))
	if w.Code != http.StatusSeeOther {
		t.Fatalf("POST %s: %d\n%s", path, w.Code, w.Body)
	}
	return w.Header().Get("Location")
}

func TestRetryAndDrop(t *testing.T) {
	t.Parallel()
	for action, notice := range map[string]string{"retry": "retried", "drop": "dropped"} {
		c := troubled(t)
		h := c.handler(func(cfg *Config) { cfg.AllowChanges = true })
		fields := c.parkedFields(t)
		stale := url.Values{}
		for k, v := range fields {
			stale[k] = v
		}
		stale.Set("ts", "1")
		if to := post(t, h, "/"+action+"-parked", stale); to != "observers?done=unparked" {
			t.Errorf("%s of what is not parked leads to %s", action, to)
		}
		to := post(t, h, "/"+action+"-parked", fields)
		if to != "observers?done="+notice {
			t.Errorf("%s leads to %s", action, to)
		}
		body := get(t, h, "/"+to)
		if !strings.Contains(body, notices[notice]) || !strings.Contains(body, "Nothing is parked") {
			t.Errorf("the page after %s does not show it:\n%s", action, body)
		}
		for p, err := range observers.ListParked(testContext(t), c.client) {
			t.Errorf("%s: still parked: %v %v", action, p, err)
		}
	}
}

// A dead client's lock is resolved through the form, one whose owner may live is left alone.
func TestResolveLock(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	h := c.handler(func(cfg *Config) { cfg.AllowChanges = true })
	c.strand(time.Hour, percolator.Cell{Table: "words", Row: "alive", Column: "count"})
	c.strand(100*time.Millisecond, percolator.Cell{Table: "words", Row: "dead", Column: "count"})
	locks := func() map[string]admin.LockInspection {
		found := map[string]admin.LockInspection{}
		for l, err := range admin.New(c.client).ListLocks(testContext(t), "words", percolator.All(), admin.LockOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			found[l.Cell.Row] = l
		}
		return found
	}
	eventually(t, "dead", func() bool { return locks()["dead"].Resolvable() })
	fields := func(l admin.LockInspection) url.Values {
		return url.Values{"table": {"words"}, "row": {l.Cell.Row}, "column": {"count"}, "ts": {fmt.Sprint(int64(l.StartTS))}}
	}
	before := locks()
	if body := get(t, h, "/locks"); strings.Count(body, `action="resolve-lock"`) != 1 || len(before) != 2 {
		t.Errorf("of %d locks not one can be resolved:\n%s", len(before), body)
	}
	for _, step := range []struct{ row, notice string }{{"alive", "alive"}, {"dead", "resolved"}, {"dead", "gone"}} {
		if to := post(t, h, "/resolve-lock", fields(before[step.row])); to != "locks?done="+step.notice {
			t.Errorf("the lock of row %q leads to %s", step.row, to)
		}
	}
	if left := locks(); len(left) != 1 || left["alive"].StartTS != before["alive"].StartTS {
		t.Errorf("left are %v", left)
	}
	if body := get(t, h, "/locks"); strings.Contains(body, "row=dead") || !strings.Contains(body, "row=alive") {
		t.Errorf("the page shows something else:\n%s", body)
	}
}
