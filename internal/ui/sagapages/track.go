package sagapages

// track is the drawing of the two tracks beside one step. Lines above the node come from the step before, lines
// below lead to the next one.
type track struct {
	Forward, Back lane
	Turn          bool // the way forward ended here, and the way back began
}

// lane is the piece of a track beside one step. Above and Below are the classes of the lines; empty: none.
type lane struct{ Above, Below string }

const (
	gone   = "gone"   // the saga went there
	coming = "coming" // it is to go there
)
