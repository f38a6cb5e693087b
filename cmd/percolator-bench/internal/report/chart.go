package report

// Chart is a picture of figures: lines, or bars if it has categories. Name is that of its files.
type Chart struct {
	Name, Title string
	X, Y        Axis
	Marks       []Mark
	Lines       []Line
	Categories  []string // of bars; each has one of each group
	Bars        []Bars
}

// Axis is one axis of a chart.
type Axis struct {
	Label string  // what is shown, with its unit: "latency, ms"
	Log   bool    // logarithmic: all values must be above 0
	Min   float64 // where the axis begins; Min = Max: as the data do
	Max   float64 // where it ends
}

// Mark is a dashed line across the chart, for a goal or a limit.
type Mark struct {
	At         float64
	Name       string // written beside it
	Horizontal bool   // at y = At; else at x = At
}

// Line is a series of points, in the order of X.
type Line struct {
	Name   string // in the legend; "": not there
	X, Y   []float64
	Points bool // shows each point
	Steps  bool // holds each value until the next
}

// Bars is one bar for each category.
type Bars struct {
	Name   string // in the legend; "": not there
	Values []float64
}

// Draw adds a chart to the report, without its lines and groups that have nothing to show.
func (r *Report) Draw(c Chart) {
	lines := c.Lines
	c.Lines = nil
	for _, l := range lines {
		if len(l.X) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	if len(c.Lines)+len(c.Categories) > 0 {
		r.Charts = append(r.Charts, c)
	}
}

// Line takes a point from each row that of accepts, nil: from all.
func (t *Table) Line(name, x, y string, of func(*Row) bool) Line {
	l := Line{Name: name, Points: !t.Series, Steps: t.Series}
	for _, r := range t.Rows {
		if of == nil || of(r) {
			l.X, l.Y = append(l.X, r.Value(x)), append(l.Y, r.Value(y))
		}
	}
	return l
}
