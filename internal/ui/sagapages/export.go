package sagapages

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// export sends the page of the list in the URL as a file. It contains only the loaded page, not all
// matches.
func (p *pages) export(v *web.Visit) (*web.Page, error) {
	_, list, err := p.listed(v)
	if err != nil {
		return nil, err
	}
	name, content := "sagas.ndjson", ndjson
	if strings.HasSuffix(v.URL.Path, ".csv") {
		name, content = "sagas.csv", asCSV
	}
	out, err := content(list.Sagas)
	return &web.Page{Data: web.File{Name: name, Content: out}}, err
}

func ndjson(sagas []client.Saga) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for i := range sagas {
		if err := e.Encode(&sagas[i]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func asCSV(sagas []client.Saga) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{ // an error is reported by Error
		"saga_id", "state", "needs_attention", "workflow", "business_key", "correlation_id", "current_step",
		"total_steps", "initiated_by", "created_at", "completed_at", "error", "assignee",
	})
	for i := range sagas {
		s := &sagas[i]
		failure, completed := "", ""
		if s.Error != nil {
			failure = s.Error.Code + ": " + s.Error.Message
		}
		if s.CompletedAt != nil {
			completed = s.CompletedAt.UTC().Format(time.RFC3339Nano)
		}
		row := []string{
			s.SagaID.String(), string(s.State), strconv.FormatBool(s.NeedsAttention), s.DefinitionID, value(s.BusinessKey),
			value(s.CorrelationID), strconv.Itoa(s.CurrentStep), strconv.Itoa(s.TotalSteps), s.InitiatedBy,
			s.CreatedAt.UTC().Format(time.RFC3339Nano), completed, failure, value(s.Assignee),
		}
		for j := range row {
			row[j] = harmless(row[j])
		}
		_ = w.Write(row) // an error is reported by Error
	}
	w.Flush()
	return out.Bytes(), w.Error()
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// harmless prevents spreadsheets from treating a text as a formula. Some of them also accept the
// full-width forms of the signs.
func harmless(cell string) string {
	if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}
