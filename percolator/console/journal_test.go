package console

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// rangesRead lists the requests for ranges of users' tables, or of those of indexes.
func rangesRead(f *percolatortest.Faults) (list []string) {
	for _, r := range f.Requests() {
		m, reads := r.Message.(*bigtablepb.ReadRowsRequest)
		if strings.HasPrefix(r.Table, "percolator_") || r.Table == "" {
			continue
		}
		if r.Method == percolatortest.SampleRowKeys || reads && (len(m.GetRows().GetRowRanges()) > 0 || len(m.GetRows().GetRowKeys()) == 0) {
			list = append(list, r.Method+" of "+r.Table)
		}
	}
	return list
}

// While every page is loaded and kept up to date, and notifications, locks and parked cells are
// there to be listed, no range of a user's table is read: looking costs the work that is left, and
// not the tables.
func TestNoPageReadsATable(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, 1)
	o := new(observer)
	stop := c.workUntil(c.env.NewClient(c.ownOracle()), o)
	c.park(o, "lighthouse", "no luck")
	stop()
	c.set("text", document("waiting", "contents"), percolator.Cell{Table: "words", Row: "w", Column: "c"})
	c.strand(time.Second, document("stranded", "contents"), document("stranded too", "contents"))
	reader := c.env.NewClient(c.ownOracle())
	h, err := NewHandler(reader, Config{OracleAddresses: c.addresses, PollInterval: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	c.env.FaultsOf(reader).Forget()
	var live []*viewer
	for path := range everyPage {
		get(t, h, path)
		if page := strings.TrimPrefix(path, "/"); page != pageRow {
			live = append(live, watch(h, map[string]string{"": pageOverview}[page]+page))
		}
	}
	get(t, h, "/row?table=documents&row=lighthouse") // one row, asked for by name
	for path, want := range map[string]string{"/locks": "stranded too", "/observers": "lighthouse", "/journal": "From low on"} {
		eventually(t, want, func() bool { return strings.Contains(get(t, h, path), want) })
	}
	for _, v := range live {
		eventually(t, "some polls", func() bool { return len(v.ids()) > 5 })
		v.leave()
		<-v.gone
	}
	if read := rangesRead(c.env.FaultsOf(reader)); len(read) > 0 {
		t.Errorf("%d requests for ranges of tables: %v", len(read), read)
	}
}

// The page of the journal shows streams, how far behind they are, and what a sweep has found.
func TestJournalPage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.set("text", document("waiting", "contents"))
	h := c.handler()
	body := get(t, h, "/journal")
	streams, _, err := h.poll.src.(clientSource).JournalStreams(testContext(t), MaxListed)
	if err != nil || len(streams) == 0 {
		t.Fatalf("%d streams: %v", len(streams), err)
	}
	for _, want := range []string{streams[0].ID, "open", "There was no sweep yet"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	if sum := (journalState{Streams: streams}).Sum(); sum.Unsettled == 0 || sum.Oldest == 0 || sum.AtLeast {
		t.Errorf("the streams hold %+v", sum)
	}
}
