package sagapages

// track is the drawing of the two tracks next to one step. Lines above the node come from the
// previous step, and lines below lead to the next one.
type track struct {
	Forward, Back lane
	Turn          bool // forward execution ended here, and compensation began
}

// lane is the piece of a track next to one step. Above and Below are the classes of the lines;
// empty means no line.
type lane struct{ Above, Below string }

const (
	gone   = "gone"   // the saga has passed here
	coming = "coming" // the saga will pass here
)
