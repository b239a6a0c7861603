package httpapi

import "net/http"

func (a answer) VisitListDeadLettersOfTopicResponse(w http.ResponseWriter) error  { return a.write(w) }
func (a answer) VisitListDeadLettersResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitPushDeadLetterResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitPushDeadLettersResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitGetDeadLetterResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitUpdateDeadLetterResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitDeleteDeadLetterResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitRetryDeadLetterResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitRequeueDeadLetterResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitDiscardDeadLetterResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitResolveDeadLetterResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitAcknowledgeDeadLetterResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a answer) VisitListDeadLetterAttemptsResponse(w http.ResponseWriter) error  { return a.write(w) }
func (a answer) VisitGetDeadLetterLineageResponse(w http.ResponseWriter) error    { return a.write(w) }
func (a answer) VisitListDeadLetterRevisionsResponse(w http.ResponseWriter) error { return a.write(w) }
func (a answer) VisitListArchivedDeadLettersResponse(w http.ResponseWriter) error { return a.write(w) }
func (a answer) VisitGetArchivedDeadLetterResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a answer) VisitRestoreDeadLetterResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitImportDeadLettersResponse(w http.ResponseWriter) error       { return a.write(w) }
