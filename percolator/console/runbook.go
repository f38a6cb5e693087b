package console

// runbook is where an operator reads what to do. Anchors are those of its headings.
const runbook = "https://github.com/gopercolator/percolator/blob/main/docs/RUNBOOK.md"

// runbookLink is the address of a section; "" for none.
func runbookLink(anchor string) string {
	if anchor == "" {
		return ""
	}
	return runbook + "#" + anchor
}
