"""Small lists of English words, for the articles and forms that :mod:`mhgrn.kg.sentences` chooses.

Concepts of a graph have no part of speech. These lists hold the common words of commonsense graphs; a word in none of them is a
countable noun.
"""

VERBS = frozenset(
    """
    accept ache achieve act add admire admit agree answer apply argue arrange arrive ask attack attend attract avoid bake bark
    flip orbit
    bathe be beat become beg begin behave believe bend bind bite bleed bless blow boil borrow bounce break breathe breed brew
    bring brush build burn bury buy calculate call calm camp carry carve cast catch cause celebrate change charge chase chat
    cheat check cheer chew choose chop clap clean clear climb cling close collect come comfort communicate compete complete
    compose compute concentrate connect contain control cook cool copy count cover crack crash crawl create cross crush cry
    cure cut dance deal decide decorate defend delay deliver describe destroy diagnose die dig dine discover discuss dive
    divide do donate draw dream dress drink drive drop drown dry earn eat educate elect empty encourage end enjoy enter
    entertain erase escape evaporate examine excite exercise exhale exist expand explain explode explore express extinguish
    extract fall fasten feed feel fight fill find finish fish fit fix flee float flow fly fold follow forget forgive form
    freeze frighten fry gain gallop gamble gather get give glide go grab graze greet grind grow guard guess hang happen
    harvest hatch hate have heal hear heat help hide hire hit hold hop hope hug hunt hurl hurry hurt ignore illuminate imagine
    improve increase infect inform inhale injure insert inspect install interview invent investigate invite iron jog join joke
    judge juggle jump keep kick kill kiss knead knit knock know land landscape laugh launder lay lead lean learn leave lend
    let lick lie lift light like listen live load lock look lose love lower lubricate make manage march marry mate measure
    meditate meet melt mend migrate milk mix mop motivate mount mourn move mow multiply nap need nest nibble notice nurse obey
    observe obtain offer open operate order organize own pack paint park pass pay pedal peel perform persuade pet photograph
    pick pitch plan plant play point polish pollinate pop pour practice pray preach prepare prescribe preserve press pretend
    prevent print produce promise protect prove provide publish pull pump punch punish purchase purr push put quit race rain
    raise rake reach react read realize receive record recycle reduce reflect refresh relax release remember remove rent
    repair repeat reply report represent reproduce rescue respond rest retain return ride ring rinse rise roar roast rob roll
    row rub ruin run sail salute save say scare scoop score scratch scream scrub search season see seek sell send separate
    serve set sew shake share sharpen shave shelter shine shoot shop shout show shower shrink shut sign sing sink sit skate
    skateboard ski skip skydive slaughter sleep slice slide slow smell smile smoke sneeze snore snow socialize solve sort sow
    speak spell spend spill spin spray spread sprout squeeze stab stain stand start state stay steal steer step stick sting
    stir stop store stretch study succeed suck suffer supply support surf surprise survive swallow sweat sweep swim swing
    tackle take talk tame taste teach tear tell test thank think throw tickle tie tighten touch tour tow trade train translate
    transport trap travel treat trim try tune turn type understand unload unlock unpack untie urinate use vacuum visit vote
    wag wait wake walk wander want warm warn wash waste watch water wear weave weed weigh welcome weld whisper whistle win
    wipe wish work worry wrap wrestle write yawn yell reveal sip broil satisfy propel please determine reward scold splash
    sprint
    """.split()
)
# verbs that are nouns too, when they stand alone or before a noun
NOUN_VERBS = frozenset(
    """
    ache act answer attack bark beat bite blow bounce brush call camp cast cause change charge chase chat check cheer climb
    flip orbit
    copy count cover crack crash cross cry cure cut dance deal delay draw dream dress drink drive drop end escape exercise
    fall fight fish float flow fly fold form gain grab guard guess hate heat help hit hold hop hope hug hunt hurt interview
    iron joke judge jump keep kick kill kiss knock land landscape laugh lead lick lie lift light like load lock look love
    march mate measure milk mop mount move nap need nest nurse offer order pack paint park pass pay pedal peel pet photograph
    pick pitch plan plant play point polish pop practice press print produce promise pull pump punch purchase push race rain
    raise rake reach record release rent repair reply report rescue rest return ride ring rise roar roast roll row ruin run
    sail salute save scare score scratch scream search season set shake share shave shelter shine shop shout show shower sign
    sink skate skateboard ski skip sleep slice slide smell smile smoke sneeze snow sort spin spray spread stain stand start
    state stay step stick sting stop store stretch study supply support surf surprise sweat swim swing talk taste tear test
    throw tie touch tour tow trade train transport trap travel treat trim try tune turn type use vacuum visit vote wait wake
    walk wash waste watch water weed welcome whistle win wish work worry wrap yawn yell
    """.split()
)
# after these a first word such as "play" is a verb: "play a game", "go to school"
AFTER_VERB = frozenset(
    """
    a an the to in on at up down out off away over into with for from of by about around through your my his her their its it
    them him you yourself oneself something someone things money music food fun television tv football baseball basketball
    soccer tennis chess cards games sports home well fast better together good bad new more all some other people others
    """.split()
)
MASS = frozenset(
    """
    acid adulthood advertising advice agriculture aid air air-conditioning alcohol aluminum ammonia amusement anger anxiety
    amazement manure
    art asphalt aspirin attention bacon baggage ballet baseball basketball beauty bedtime beef beer bingo biology black bleach
    blood blue boredom bowling brandy brass bread breakfast breath bronze brown brunch butter cardboard cash cattle cement
    chalk chaos cheese chemistry chess childcare childhood china chocolate cinnamon citizenship clay clothing coal cocaine
    coffee comfort commerce communication company concrete confetti cooking copper corn cotton courage cream cricket crime
    damage dance dandruff danger darkness dawn death debt decoration denim detergent dew dinner dirt dough dusk dust dynamite
    earth economics education electricity energy enjoyment entertainment equipment everybody evidence evil excitement fabric
    faith fame fat fear fertilizer fiberglass film fire fish flesh flour flu foam fog foliage food football freedom friendship
    frost fruit fuel fun fur furniture garbage garlic gas gasoline gauze genetics glass glue god gold golf grass gravel
    gravity grease green grief guilt gum gunpowder hail hair happiness hardware hate hatred hay health heat heaven helium hell
    help history hockey homework honesty honey hope housework humanity humor hunger hydrogen ice illumination income industry
    information ink insulation iron ivory ivy jam jazz jealousy jelly jewelry joy juice justice karaoke ketchup knowledge
    labor lace laughter laundry lava lead leadership leather leisure lettuce life light lightning linen literature lotion love
    luck luggage lumber lunch magic mail makeup mankind marble marijuana math matter mayonnaise meat medicine mercury metal
    midnight milk money mortar moss motherhood mud music mustard nature news nitrogen noise nonsense noon nutrition nylon
    oatmeal oil ownership oxygen pain paint paper parking pasta pasture patience peace pepper perfume petroleum philosophy
    physics pink plastic pleasure plywood poetry poison poker politics pollen pollution porcelain pork poverty power pride
    progress propaganda protection protein publicity purple rain recreation red relaxation rent research respect rice rubber
    rubbish rugby rum rust sadness safety salad salt sand sauce sawdust school-work science seafood sewage sex shampoo shit
    silence silk silver skin slang sleep sleet smoke snow soap soccer software soil soup space spaghetti speech spinach sport
    stamina steam steel storage straw stress stuff style success sugar sunlight sunscreen sunshine supper sushi sweat talent
    tape tea technology tennis text theft thunder timber time tin tissue tobacco toothpaste traffic transport transportation
    trash travel trouble trust truth urine vanilla vegetation velvet venom vinegar violence vision vodka volleyball warmth
    waste water wax wealth weather weight wheat whiskey white wildlife wind wine wisdom wonder wood wool work yarn yellow
    yogurt youth
    """.split()
)
MASS_ENDINGS = ("ness", "ism", "ics", "iculture")
PLURALS = frozenset("cattle children feet geese men mice oxen people police staff teeth women clothes folk wolves".split())
SINGULARS_IN_S = frozenset(
    """
    alas atlas bias biceps boss bus campus canvas chaos christmas circus class crocus dress focus gas genius glass iris lens
    mass news octopus plus pus species series surplus tennis texas thermos trellis virus walrus yes molasses billiards
    """.split()
)
# words in -ing that are things
ING_NOUNS = frozenset(
    """
    beginning being bearing blessing building carving ceiling clearing clothing crossing drawing duckling dwelling earring
    ending evening feeling filling finding gathering herring icing king landing lightning lining living meaning meeting
    morning offering opening outing painting parking pudding railing ring setting sibling sling spring stocking string
    surrounding swing thing viking warning wedding wing anything everything nothing something
    """.split()
)
# after a word in -ing these are things: "swimming pool", but "eating ice cream"
COMPOUNDS = frozenset(
    """
    alley area arena bag barrel bench block board boat book bowl box camp card cart cell center centre chair class club court
    cream desk device disc disk dish door dress field gear glass glasses ground hall hat hole home house instrument iron
    island kit lane license light lot machine mall map mark material mat nest pad page pan paper party path pen pin pit place
    plan plant point pole pool post pot process programme program rack ring rink rod room rope school seat set shed ship shoe
    shoes shop site spot spree station stick stone store strip studio suit surface system table tool tower track trip unit
    utensil window yard
    """.split()
)
NAMES = frozenset(
    """
    africa african alabama alaska america american amsterdam antarctica april arizona arkansas asia asian athens atlanta
    august australia australian austria baltimore barcelona beethoven beijing belgium berlin bible boston brazil britain
    british brooklyn california cambridge canada canadian chicago chinese christ christianity christmas colorado connecticut
    dallas december denmark detroit dublin easter egypt england english europe european february finland florida france french
    friday georgia german germany god greece greek halloween harvard hawaii hinduism hollywood houston hungary idaho illinois
    india indiana iowa iran iraq ireland islam israel italian italy january japan japanese jesus judaism july june jupiter
    kansas kentucky korea latin london louisiana madrid maine manhattan mars maryland massachusetts mexico miami michigan
    minnesota mississippi missouri monday montana moscow mozart nebraska nevada norway november october ohio oklahoma oregon
    oxford paris pennsylvania philadelphia poland portugal rome russia russian santa satan saturday saturn scotland seattle
    september shakespeare spain spanish sunday sweden switzerland sydney tennessee texas thursday tokyo toronto tuesday utah
    venice vermont vienna vietnam virginia wales washington wednesday wisconsin wyoming
    """.split()
)
NAME_PHRASES = frozenset(
    """
    new_york new_york_city los_angeles san_francisco san_diego united_states united_kingdom great_britain new_zealand
    new_jersey new_mexico new_hampshire new_orleans north_america south_america north_carolina south_carolina north_dakota
    south_dakota west_virginia rhode_island las_vegas hong_kong saudi_arabia south_africa puerto_rico santa_claus jesus_christ
    george_washington middle_east world_war_ii atlantic_ocean pacific_ocean mount_everest grand_canyon white_house
    """.split()
)
WITH_THE = frozenset(
    """
    earth moon sun sky world universe internet ocean bible united_states united_kingdom middle_east atlantic_ocean
    pacific_ocean grand_canyon white_house ground past future same government military environment
    """.split()
)
ACRONYMS = frozenset("tv dvd cd pc dna rna atm usa uk ufo bbq cpu vcr".split())
DETERMINERS = frozenset(
    """
    a an the my your his her its our their one's some any many much more most all every each no several few two three four
    five six seven eight nine ten hundred hundreds thousand thousands something someone anyone everyone nothing nobody
    everything anything what when where who how it itself himself herself you we they one oneself this that these those
    different other he she i if
    """.split()
)
PREPOSITIONS = frozenset(
    """
    about above across after against around at before behind below between by during for from in inside into near of off on
    onto out over per than through to toward under until up upon using via while with within without that which
    """.split()
)
# where things are: "on a table", "at a party"; "in" for other places
ON = frozenset(
    """
    arm balcony bench bicycle boat body bookshelf branch bridge bus ceiling cheek clothesline computer couch counter
    countertop deck desk dresser ear earth escalator face farm finger floor foot grass ground hand head highway hill horse
    island keyboard lawn leg map moon motorcycle mountain neck nightstand nose page path patio pedestal planet plate porch
    railroad ranch road roof rooftop runway scooter screen sheet shelf ship sidewalk skateboard sofa stage street table track
    train tray wall windowsill wrist
    """.split()
)
AT = frozenset(
    """
    party work home airport station concert fair picnic circus wedding meeting conference show event funeral game beach school
    university college zoo carnival festival performance match reunion competition race play opera movie movies resort
    """.split()
)
# after a verb these are no objects: "go home", "run fast"
ADVERBS = frozenset(
    """
    again ahead alone apart aside away back bad badly better big dead down early easy enough everywhere far fast first forever
    forward free good hard here high home hot indoors inside instead late left loud low more much naked near off often open
    out outdoors outside over quiet right short sick slow soon still straight there through tired together tomorrow twice up
    upset well wet wrong yes underwater overseas abroad
    """.split()
)
# verbs that stand before adjectives: "be happy", "get tired"
LINKING = frozenset("be become feel look get stay seem smell taste sound go come keep make turn grow fall".split())
# without article after a preposition: "go to school", "be in love"
IDIOMS = frozenset(
    """
    bed school church college work court town class sleep war prison jail home sea line time foot love fire vacation holiday
    purpose turn place stage trouble danger hand board top bottom front back public private shape detail advance
    """.split()
)
BEFORE_OBJECT = frozenset("at for from in into off on onto over through to under with".split())
PARTICIPLES = dict(
    pair.split("/")
    for pair in """
    be/been bear/born beat/beaten become/become begin/begun bend/bent bind/bound bite/bitten bleed/bled blow/blown
    break/broken bring/brought build/built burn/burned buy/bought cast/cast catch/caught choose/chosen cling/clung come/come
    cut/cut deal/dealt dig/dug do/done draw/drawn drink/drunk drive/driven eat/eaten fall/fallen feed/fed feel/felt
    fight/fought find/found flee/fled fly/flown forget/forgotten forgive/forgiven freeze/frozen get/gotten give/given go/gone
    grind/ground grow/grown hang/hung have/had hear/heard hide/hidden hit/hit hold/held hurt/hurt keep/kept know/known
    lay/laid lead/led leave/left lend/lent let/let light/lit lose/lost make/made meet/met mow/mown pay/paid put/put quit/quit
    read/read ride/ridden ring/rung rise/risen run/run say/said see/seen seek/sought sell/sold send/sent set/set sew/sewn
    shake/shaken shine/shone shoot/shot show/shown shrink/shrunk shut/shut sing/sung sink/sunk sit/sat sleep/slept slide/slid
    sow/sown speak/spoken spend/spent spin/spun spread/spread stand/stood steal/stolen stick/stuck sting/stung sweep/swept
    swim/swum swing/swung take/taken teach/taught tear/torn tell/told think/thought throw/thrown understand/understood
    wake/woken wear/worn weave/woven win/won write/written
    """.split()
)
