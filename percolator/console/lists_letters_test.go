package console

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/tso"
)

// Dead letters are shown with their keys and reasons, and with the commands that end them; the
// overview says that there are some. Their values are not shown.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	c := newQueueCluster(t, 1)
	c.work(c.client, new(observer))
	h := c.handler()
	if body := get(t, h, "/observers"); !strings.Contains(body, "No dead letters.") {
		t.Errorf("without any:\n%s", body)
	}
	c.export("<ada@example.com>", "bad 550 no such user", "bob@example.com", "hello", "eve\x00", "bad 554 refused")
	eventually(t, "dead letters", func() bool { return strings.Contains(get(t, h, "/observers"), "2 entries for good") })
	body := get(t, h, "/observers")
	for _, want := range []string{
		`<h3 id="letters-mails">mails</h3>`, "&lt;ada@example.com&gt;", `&#34;eve\x00&#34;`, "550 no such user", "554 refused",
		"<code>percolator exports retry dead_letters --queue mails</code>", "<code>percolator exports drop dead_letters --queue mails</code>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	for _, never := range []string{"bob@example.com", "bad 550", "These are the first ones"} {
		if strings.Contains(body, never) {
			t.Errorf("the page contains %q", never)
		}
	}
	if body := get(t, h, "/"); !strings.Contains(body, "The receiver of the queue mails has refused 2 entries for good") || !strings.Contains(body, "#dead-letters") {
		t.Errorf("the overview:\n%s", body)
	}
}

// What was not counted is not hidden, and a source that fails is named.
func TestCountOfDeadLetters(t *testing.T) {
	t.Parallel()
	now := time.Now()
	many := exportqueue.DeadLetterCount{Table: "dead", Queue: "mails", Letters: exportqueue.MaxCounted, More: true, Oldest: tso.At(now.Add(-time.Hour))}
	st := &state{Letters: reading[[]exportqueue.DeadLetterCount]{At: now}}
	for _, test := range []struct {
		counts []exportqueue.DeadLetterCount
		failed error
		want   string
	}{
		{nil, nil, ""},
		{[]exportqueue.DeadLetterCount{{Queue: "q", Letters: 1, Oldest: tso.At(now)}}, nil, "The receiver of the queue q has refused 1 entry for good"},
		{[]exportqueue.DeadLetterCount{many}, nil, "has refused more than 1000 entries for good, the oldest 1h0m ago."},
		{nil, errors.New("no permission"), "The last look at dead letters failed: no permission."},
	} {
		st.Letters.Value, st.Letters.Failed = test.counts, test.failed
		list := concerns(st, now)
		if (len(list) == 0) != (test.want == "") || len(list) > 0 && !strings.Contains(list[0].Text(), test.want) {
			t.Errorf("%+v, want %q", list, test.want)
		}
	}
}
