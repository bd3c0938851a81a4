"""Word lists that several kinds of prompt draw from."""

from __future__ import annotations

FIRST_NAMES = (
    "Amara Bruno Carmen Dmitri Elena Farid Greta Hassan Ingrid Jamal Keiko Leo Mina Nadia Omar "
    "Priya Quentin Rosa Stefan Tara Umar Vera Wendy Ximena Yusuf Zoe Alice Ben Clara David Emma "
    "Frank Grace Henry Isla Jack Kate Liam Maya Noah Olivia Paul Ruth Sam Tina Victor Will Anna "
    "James Mary John Lisa Tom Sarah Mike Jenny Peter Laura Tim Julia Mark Susan Carlos Helen"
).split()
NAMES = [*FIRST_NAMES, "Mr. Lopez", "Mrs. Chen", "Ms. Patel", "Dr. Novak", "Coach Rivera", "Uncle Joe"]
ITEMS = (
    "apples oranges marbles books stickers pencils cookies cupcakes candles balloons stamps coins "
    "shells beads ribbons notebooks tomatoes peaches lemons eggs muffins sandwiches bottles boxes "
    "tickets postcards flowers seedlings bricks tiles toys puzzles cards magnets crayons buttons "
    "potatoes carrots melons pears jars blankets scarves hats mugs plates lamps chairs shirts"
).split()
PLACES = (
    "bakery|bookstore|farm|school|library|garden|market|museum|zoo|factory|restaurant|warehouse|"
    "theater|gym|park|clinic|hotel|airport|toy store|coffee shop|pet shop|train station"
).split("|")
JOBS = (
    "baker|farmer|teacher|carpenter|plumber|painter|gardener|driver|nurse|tailor|mechanic|florist|"
    "librarian|chef|waiter|potter|jeweler|programmer|photographer|musician|delivery worker"
).split("|")
ANIMALS = "dogs cats horses cows sheep goats rabbits ducks hens pigs parrots turtles fish".split()
VEHICLES = "car|bus|train|truck|bicycle|motorcycle|boat|van|tractor|scooter".split("|")
TOPICS = (
    "photosynthesis|black holes|the water cycle|inflation|supply and demand|machine learning|"
    "plate tectonics|vaccines|the immune system|blockchain|renewable energy|evolution|gravity|"
    "the French Revolution|the Roman Empire|the Industrial Revolution|the Silk Road|democracy|"
    "the Renaissance|Stoicism|existentialism|utilitarianism|the Cold War|colonialism|jazz music|"
    "impressionist painting|Shakespeare's tragedies|poetry|mythology|climate change|recycling|"
    "ocean currents|volcanoes|earthquakes|DNA|cell division|enzymes|acids and bases|the periodic "
    "table|electricity|magnetism|sound waves|light and color|the solar system|space travel|robots|"
    "computer networks|databases|encryption|operating systems|recursion|sorting algorithms|"
    "time management|public speaking|job interviews|healthy eating|sleep|meditation|exercise|"
    "gardening|baking bread|photography|budgeting|investing|learning a language|remote work|"
    "social media|online privacy|video games|chess|football|swimming|hiking|camping|traveling "
    "alone|raising children|friendship|leadership|teamwork|creativity|honesty|courage|the ocean|"
    "bees and pollination|whales|elephants|dinosaurs|the human heart|the brain|memory|dreams|money|"
    "taxes|insurance|real estate|marketing|small businesses|startups|customer service|negotiation"
).split("|")
CITIES = (
    "Lisbon|Kyoto|Nairobi|Lima|Prague|Oslo|Toronto|Chicago|Cairo|Istanbul|Mumbai|Seoul|Melbourne|"
    "Buenos Aires|Vienna|Dublin|Athens|Havana|Boston|Marrakesh|Bangkok|Edinburgh|Florence|Denver"
).split("|")
