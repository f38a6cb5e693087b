package console

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A program without a worker is seen: its transactions count in the list of clients and in the
// charts, and it is no worker.
func TestProgramWithoutAWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	program := c.env.NewClient(c.ownOracle(), percolatortest.Name("program"))
	const transactions = 40
	for i := range transactions {
		_, err := program.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(percolator.Cell{Table: "words", Row: fmt.Sprint(i), Column: "n"}, []byte("1"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	report, err := membership.NewReporter(program.Engine(), program.Engine().ID, 10*time.Second)
	if err == nil {
		err = report.Store(testContext(t), model.WorkerReport{})
	}
	if err != nil {
		t.Fatal(err)
	}
	h := c.handler()
	body := get(t, h, "/workers")
	if !strings.Contains(body, fmt.Sprintf(`data-label="Transactions">%d</td>`, transactions)) || !strings.Contains(body, "No worker has announced itself") {
		t.Errorf("the program is not there, or is a worker:\n%s", body)
	}
	body = get(t, h, "/")
	if !strings.Contains(body, `<dt>Clients</dt><dd><a href="workers">2</a>`) || !strings.Contains(body, `<dt>Workers</dt><dd><a href="workers">0</a>`) {
		t.Errorf("counted otherwise:\n%s", body)
	}
	rate := regexp.MustCompile(`(?s)data-chart="transactions".*?<p class="figure">([^<]*)</p>`).FindStringSubmatch(body)
	if rate == nil || rate[1] == "–" || strings.HasPrefix(rate[1], "0") {
		t.Errorf("the chart shows %q", rate)
	}
}
