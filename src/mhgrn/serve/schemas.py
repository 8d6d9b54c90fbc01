"""The JSON of requests and answers, as the OpenAPI document describes it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mhgrn.serve.settings import Limits

LIMITS = Limits()

Name = Annotated[str, Field(min_length=1, max_length=LIMITS.name, pattern=r"\S")]
FactNames = Annotated[
    list[Name], Field(min_length=3, max_length=3, description="head, relation, tail", examples=[["child", "AtLocation", "school"]])
]
Facts = Annotated[list[FactNames], Field(max_length=LIMITS.facts)]
Choice = Annotated[str, Field(min_length=1, max_length=LIMITS.choice, pattern=r"\S")]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class AskBody(_Body):
    """A question, changes of the graph for this answer, and what the answer should contain."""

    question: str = Field(min_length=1, max_length=LIMITS.question, pattern=r"\S", examples=["Where would a child sit at a desk?"])
    choices: Annotated[list[Choice], Field(min_length=2, max_length=LIMITS.choices)] | None = Field(
        None,
        description="distinct texts; null: concepts of the graph are ranked. A model with task open takes no choices",
        examples=[["schoolroom", "patio", "bus"]],
    )
    n: int = Field(10, ge=1, le=LIMITS.ranked, description="number of answers to a question without choices")
    facts: Facts = Field([], description="facts to add to the graph for this answer")
    without: Facts = Field([], description="facts of the graph to leave out for this answer")
    graph: bool = Field(True, description="false: answer without the graph")
    paths: int = Field(3, ge=1, le=LIMITS.paths, description="number of paths to show")
    by: Literal["evidence", "attention"] = Field(
        "evidence", description="explain by the smallest set of facts that carries the answer, or by the paths with most attention"
    )
    effects: bool = Field(True, description="compute what the facts do to the answer; false: only where the model looked")
    subgraph: bool = Field(False, description="return the question's part of the graph")
    contrast: Choice | None = Field(None, description="another choice to compare the answer with")
    abstain_below: float | None = Field(
        None, ge=0, lt=1, description="least confidence of an answer that is sure enough; null: as stored with the run; 0: none"
    )
    coverage: float | None = Field(None, gt=0, lt=1, description="return choices that contain the right one with this probability")
    model: Name | None = Field(None, description="name of a served model; null: the first")


class AskManyBody(_Body):
    questions: list[AskBody] = Field(min_length=1, max_length=LIMITS.questions)


class Problem(BaseModel):
    message: str
    field: str | None = Field(description="the field that is wrong, for example choices.2")
    limit: int | None = Field(description="the limit that was exceeded")


class ErrorBody(BaseModel):
    error: Problem


class PathBody(BaseModel):
    entity: str
    facts: list[list[str]]
    concepts: list[str]
    log_weight: float
    ties: int
    probability: float
    without: list[float] | None
    without_path: float | None
    sentences: list[str]
    text: str


class NodeBody(BaseModel):
    name: str
    label: str
    role: Literal["question", "choice", "between"]
    choices: list[int]
    id: str | None = Field(None, description="the id of the concept, in a graph with labels")


class EdgeBody(BaseModel):
    head: int
    relation: str
    tail: int
    sentence: str
    added: bool


class SubgraphBody(BaseModel):
    nodes: list[NodeBody]
    edges: list[EdgeBody]
    left_out: dict[str, int]


class StatedFact(BaseModel):
    fact: list[str]
    sentence: str


class ContrastFactBody(StatedFact):
    difference_without: float


class ContrastBody(BaseModel):
    this: str
    other: str
    difference: float = Field(description="log odds of this against other")
    facts: list[ContrastFactBody]


class SupportingFactBody(BaseModel):
    fact: list[str]
    sentence: str
    without: float


class EvidenceSetBody(BaseModel):
    """The smallest set of facts that carries an answer."""

    facts: list[SupportingFactBody]
    dependent: bool
    sufficient: bool
    necessary: bool
    only: float
    without: float
    without_graph: float
    answer_only: str
    answer_without: str
    answer_without_graph: str
    summary: str
    is_reached: bool | None = Field(None, description="question without choices: a walk leads to the answer without these facts")
    is_answer: bool | None = Field(None, description="question without choices: it is an answer without these facts")


class RankedPathBody(BaseModel):
    text: str
    facts: list[list[str]]
    share: float
    sentences: list[str]
    without: list[float] | None = Field(description="the answer's probability without each fact")
    without_path: float | None = Field(description="the answer's probability without all of the path's facts")


class RankedAnswerBody(BaseModel):
    concept: str
    probability: float
    paths: list[RankedPathBody]


class RankingBody(BaseModel):
    answers: list[RankedAnswerBody]
    candidates: int = Field(description="number of concepts that were ranked")
    shared_path: str | None = Field(None, description="the relation path to the answers, in words")
    set: list[str] | None = Field(None, description="the complete set of answers, if the model gives sets")


class AnswerBody(BaseModel):
    """The JSON of `mhgrn ask --json`."""

    question: str
    choice: str
    confidence: float = Field(description="the probability that the choice is right")
    probabilities: dict[str, float]
    paths: list[PathBody]
    concepts: dict[str, Any]
    notes: list[str]
    masses: dict[str, float] | None
    without_graph: float | None
    evidence: EvidenceSetBody | None
    subgraph: SubgraphBody | None = None
    contrast: ContrastBody | None = None
    sources: list[dict[str, Any]] | None = Field(None, description="where the facts come from, if the graph keeps it")
    abstain_below: float | None = None
    abstained: bool | None = Field(None, description="the confidence is below abstain_below")
    coverage: float | None = None
    prediction_set: list[str] | None = Field(None, description="the choices within coverage, most probable first")
    ranking: RankingBody | None = Field(None, description="the best answers to a question without choices")


class AnswersBody(BaseModel):
    answers: list[AnswerBody | ErrorBody]


class ConceptBody(BaseModel):
    name: str
    label: str
    facts: int


class ConceptsBody(BaseModel):
    concepts: list[ConceptBody]


class ProvenanceBody(BaseModel):
    file: str
    row: int
    dataset: str | None = None
    sources: list[str] = []


class ConceptFactBody(StatedFact):
    id: str = Field(description="made of the names; the same in every graph")
    number: int = Field(description="the fact's number in this graph")
    concepts: list[str] | None = Field(None, description="the ids of head and tail, in a graph with labels")
    provenance: ProvenanceBody | None = Field(None, description="where the fact comes from, if the graph keeps it")


class ConceptFactsBody(BaseModel):
    name: str
    label: str
    id: str | None = Field(None, description="the id of the concept, in a graph with labels")
    total: int
    facts: list[ConceptFactBody]


class RelationBody(BaseModel):
    name: str
    sentence: str


class RelationsBody(BaseModel):
    relations: list[RelationBody]


class ModelBody(BaseModel):
    name: str
    task: Literal["choices", "open"] = Field(description="open: the model answers questions without choices only")
    encoder: str
    text_precision: str
    graph: dict[str, Any]
    graph_encoder: str
    parameters: int
    training: dict[str, Any]
    accuracy: dict[str, float]


class ModelsBody(BaseModel):
    models: list[ModelBody]
    limits: dict[str, int]


class ExampleBody(BaseModel):
    question: str
    choices: list[str]


class ExamplesBody(BaseModel):
    examples: list[ExampleBody]


class StatusBody(BaseModel):
    status: str
